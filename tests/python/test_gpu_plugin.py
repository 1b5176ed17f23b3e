"""How jaxina finds its part for GPUs. `make test-wheels` loads the real one."""

import importlib.metadata
import pathlib
import tomllib
from types import SimpleNamespace

import pytest

from jaxina import _gpu, _native, errors

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def loaded(monkeypatch):
    """The libraries that were loaded."""
    libraries = []
    monkeypatch.setattr(_native, "load_gpu_part", libraries.append)
    return libraries


def install(monkeypatch, *versions: str) -> None:
    plugins = [
        SimpleNamespace(
            dist=SimpleNamespace(name="jaxina-cuda13", version=version), load=lambda: pathlib.Path("/part.so")
        )
        for version in versions
    ]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: plugins if group == "jaxina_plugins" else [])


def test_what_the_entry_point_names_is_loaded(monkeypatch, loaded):
    install(monkeypatch, importlib.metadata.version("jaxina"))
    _gpu.load()
    assert loaded == ["/part.so"]


def test_without_a_plugin_nothing_is_loaded(monkeypatch, loaded):
    install(monkeypatch)
    _gpu.load()
    assert loaded == []


def test_another_version_is_refused(monkeypatch, loaded):
    install(monkeypatch, "0.0.7")
    with pytest.raises(ImportError, match=r"jaxina-cuda13 0\.0\.7 is not for jaxina .*: install the same version"):
        _gpu.load()
    assert loaded == []


def test_two_plugins_are_refused(monkeypatch, loaded):
    install(monkeypatch, "1.0", "1.0")
    with pytest.raises(ImportError, match=r"several plugins of jaxina, jaxina-cuda13 1\.0, jaxina-cuda13 1\.0"):
        _gpu.load()
    assert loaded == []


def test_a_library_that_is_not_there_or_is_another_is_an_error():
    with pytest.raises(errors.GpuError, match=r"cannot be loaded: .*no-such-file"):
        _native.load_gpu_part("/no-such-file.so")
    with pytest.raises(errors.GpuError, match=r"cannot be loaded: .*jaxina_gpu_part"):
        _native.load_gpu_part(_native.__file__)


def test_both_packages_have_one_version():
    core, plugin = (
        tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"] for folder in ("", "cuda_plugin")
    )
    assert plugin["version"] == core["version"]
    assert plugin["dependencies"] == [f"jaxina=={core['version']}"]
    assert f"jaxina-cuda13=={core['version']}" in core["optional-dependencies"]["cuda13"]


@pytest.mark.parametrize(
    "gpus,platforms,used",
    [
        ("NVIDIA H200 (sm_90)", None, True),
        ("NVIDIA H200 (sm_90)", "cuda,cpu", True),
        ("NVIDIA H200 (sm_90)", "cpu", False),
    ]
    + [("none", None, False)],
)
def test_a_gpu_is_used_if_there_is_one_and_jax_may_use_it(monkeypatch, gpus, platforms, used):
    monkeypatch.setattr(_native, "gpu_handlers", lambda: {"start": None})
    monkeypatch.setattr(_native, "gpu_facts", lambda: {"gpus": gpus})
    monkeypatch.setattr(_gpu.jax, "config", SimpleNamespace(jax_platforms=platforms))
    assert _gpu.is_used() is used


def test_without_the_part_for_gpus_no_gpu_is_used(monkeypatch):
    monkeypatch.setattr(_native, "gpu_handlers", dict)
    monkeypatch.setattr(_native, "gpu_facts", lambda: {"gpus": "NVIDIA H200 (sm_90)"})
    assert not _gpu.is_used()
