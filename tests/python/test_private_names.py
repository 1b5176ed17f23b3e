"""Each private name of JAX that jaxina uses is there and is what jaxina takes it for; a failure names what is not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import expected_private_names
import private_names
import pytest
from expected_private_names import EXPECTED, MET, MLIR, PXLA, traced
from private_names import problem

PACKAGE = private_names.FOLDER.parent


@pytest.fixture(scope="module")
def problems() -> dict[str, str | None]:
    program = Path(expected_private_names.__file__)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", sorted(EXPECTED | MET))
def test_as_expected(name: str, problems: dict[str, str | None]):
    assert problems[name] is None


def test_every_name_that_is_used_is_expected_and_no_other():
    assert set(EXPECTED) == private_names.used()


def test_only_one_folder_uses_private_names():
    for path in PACKAGE.rglob("*.py"):
        if private_names.FOLDER not in path.parents:
            assert not re.search(r"jax\._src|jaxlib(\.| import )_[a-z]", path.read_text()), path


def test_the_program_s_parts_have_their_names():
    (equation,) = traced().jaxpr.eqns
    assert equation.primitive.name == "shard_map" and {"mesh", "newly_manual_axes"} <= set(equation.params)


@pytest.mark.parametrize(
    "name", [f"{MLIR}.custom_call", f"{PXLA}.MeshExecutable.__slots__", "jax._src.lax.parallel.psum_p"]
)
def test_a_name_that_is_gone_is_told(name: str, monkeypatch):
    holder, _, last = name.rpartition(".")
    expectation = EXPECTED[name]
    fake = types.SimpleNamespace(
        **{key: value for key, value in vars(private_names.find(holder)).items() if key != last}
    )
    grandparent, _, middle = holder.rpartition(".")
    monkeypatch.setattr(private_names.find(grandparent), middle, fake)
    assert (problem(name, expectation) or "").startswith(f"{name} is gone: ")


@pytest.mark.parametrize(
    "name, instead",
    [
        ("jax._src.compiler.compile_or_get_cached", lambda backend, devices, computation: None),
        (f"{MLIR}.custom_call", lambda name, *, out_types, operands: None),
        (f"{PXLA}._cached_lowering_to_hlo", lambda *args: ("module", None)),
        ("jaxlib._jax.get_distributed_runtime_service", lambda port: None),
        (f"{MLIR}._lowerings", []),
        ("jax._src.sharding_impls.ShardingContext", type("ShardingContext", (), {"devices": ()})),
    ],
)
def test_a_name_that_has_changed_is_told(name: str, instead: Any):
    assert (EXPECTED | MET)[name](instead) is not None
