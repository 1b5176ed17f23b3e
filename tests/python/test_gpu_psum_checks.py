"""The checks that `make gpu-check` makes of psums pass on CPUs, and fail where sums are wrong."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import eight_devices
import pytest

import jaxina

SCRIPT = Path(__file__).parents[1] / "gpu/psum_on_gpu.py"


@pytest.fixture(scope="module", autouse=True)
def carried() -> Iterator[None]:
    with jaxina.init(aggregator="embedded", strict=True):
        yield


@pytest.fixture
def psum_on_gpu() -> ModuleType:
    spec = importlib.util.spec_from_file_location(SCRIPT.stem, SCRIPT)
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_words_of_64_bits_give_exact_sums(psum_on_gpu: ModuleType):
    assert psum_on_gpu.check_wide_bits(eight_devices.mesh()) == 12


def test_words_of_32_bits_do_not_pass_for_64(psum_on_gpu: ModuleType, monkeypatch: pytest.MonkeyPatch):
    real = jaxina.collectives
    monkeypatch.setattr(jaxina, "collectives", lambda bits: real(bits=32))
    with pytest.raises(AssertionError, match="float32 in 64 bits, 255 elements"):
        psum_on_gpu.check_wide_bits(eight_devices.mesh())
