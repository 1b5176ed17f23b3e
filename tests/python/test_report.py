"""The report says of each program what the engine counts, and why a collective stays with XLA."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from eight_devices import DEVICES, carried, on_devices, sharded
from jax import lax
from jax.sharding import PartitionSpec as P
from patience import PATIENCE

import jaxina
from jaxina import _hlo, _report, errors

pytestmark = pytest.mark.usefixtures("job")
X = np.arange(DEVICES * 8, dtype=np.float32).reshape(DEVICES, 8)


def reported(f: Any, *operands: Any) -> tuple[jaxina.Program, int]:
    """Runs f. Returns the report's entry for its program, and the number of collectives that the engine summed."""
    before = len(jaxina.report().programs)
    _, collectives = carried(lambda: f(*operands))
    (program,) = jaxina.report().programs[before:]
    return program, collectives


def test_it_says_what_the_engine_counts():
    def f(x: Any) -> Any:
        a, b = lax.psum((x, x[:, :3]), "w")
        return a, lax.psum(b * a[:, :3], "w")

    program, collectives = reported(jax.jit(sharded(f)), on_devices(X))
    assert (program.carried, program.tensors, program.stays) == (2, 3, ())
    assert collectives == program.carried * DEVICES
    assert str(program) == "jit_f: carries 2 collectives (3 tensors)"


def test_what_stays_has_its_kind_and_reason():
    def f(x: Any) -> Any:
        narrow = lax.psum(x.astype(jnp.float8_e5m2), "w").astype(jnp.float32)
        everything = lax.all_gather(x, "w", axis=0, tiled=True)
        return lax.psum(x, "w"), narrow, everything, lax.pmax(x, "w"), lax.ppermute(x, "w", [(0, 1), (1, 0)])

    program, collectives = reported(jax.jit(sharded(f, outs=(P(), P(), P(), P(), P("w")), vma=False)), on_devices(X))
    assert (program.carried, collectives) == (1, DEVICES)
    stays = {(one.kind, one.why, one.sums): one.number for one in program.stays}
    assert stays == {
        ("all-reduce", "dtype float8_e5m2", True): 1,
        ("all-reduce", "not a sum", False): 1,
        ("all-gather", "not a sum", False): 1,
        ("collective-permute", "not a sum", False): 1,
    }


def test_the_partitioners_sums_are_seen():
    x = on_devices(X)
    program, collectives = reported(jax.jit(lambda x: (x.sum(), jnp.roll(x, 1, 0))), x)
    assert (program.carried, collectives) == (0, 0)
    whys = {one.kind: one.why for one in program.stays}
    assert whys.keys() == {"all-reduce", "collective-permute"}
    assert "partitioner" in whys["all-reduce"] and whys["collective-permute"] == "not a sum"


def test_one_in_a_loop_counts_once():
    def f(x: Any) -> Any:
        return lax.fori_loop(0, 5, lambda _, v: lax.psum(v, "w") / DEVICES, x)

    program, collectives = reported(jax.jit(sharded(f, vma=False)), on_devices(X))
    assert program.carried == 1 and collectives == 5 * DEVICES


def test_programs_without_collectives_are_left_out():
    before = jaxina.report()
    carried(lambda: jax.jit(lambda x: x + 1)(on_devices(X)))
    assert jaxina.report() == before


def test_what_was_switched_off_says_so():
    with jaxina.collectives(False):
        before = len(jaxina.report().programs)
        jax.jit(sharded(lambda x: lax.psum(x * 3, "w")))(on_devices(X))
    (program,) = jaxina.report().programs[before:]
    assert [(one.number, one.why) for one in program.stays] == [(1, "jaxina.collectives(False)")]


def test_strict_refuses_what_stays_unless_it_is_meant():
    def narrow(x: Any) -> Any:
        return lax.psum(x.astype(jnp.float8_e5m2), "w")

    x = on_devices(X)
    _report.be_strict(True)
    try:
        with pytest.raises(errors.NotCarriedError, match=r"jit_narrow.*dtype float8_e5m2"), jaxina.collectives(True):
            jax.jit(sharded(narrow))(x)
        with pytest.raises(errors.NotCarriedError, match="partitioner"), jaxina.collectives(True):
            jax.jit(lambda x: x.sum() * 7)(x)
        with jaxina.collectives(False):
            jax.jit(sharded(narrow))(x)
            jax.jit(lambda x: x.sum() * 8)(x)  # a sum of the partitioner
        with jaxina.collectives(True):
            jax.jit(sharded(lambda x: lax.pmax(lax.psum(x, "w"), "w")))(x)
    finally:
        _report.be_strict(False)


def run(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    text = "import jax, jaxina\nfrom jax.sharding import PartitionSpec as P\n" + program
    command = [sys.executable, *arguments, "-c", text]
    variables = {**os.environ, "JAX_NUM_CPU_DEVICES": "2", **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=variables)


SUM = "jax.pmap(lambda x: jax.lax.psum(x, 'w'), 'w')(jax.numpy.ones(2)).block_until_ready()\n"


def test_a_job_ends_with_a_summary_and_warns_where_nothing_was_carried():
    done = run(f"with jaxina.init():\n    {SUM}", JAXINA_LOG="info")
    assert done.returncode == 0 and "carried 2 sums, of 2 elements in all" in done.stderr, done.stderr
    done = run(f"with jaxina.init(), jaxina.collectives(False):\n    {SUM}")
    assert "WARNING: no sum was carried: 1 collective with XLA (jaxina.collectives(False))" in done.stderr, done.stderr
    done = run(f"with jaxina.init():\n    {SUM}")
    assert done.stderr == ""


@pytest.mark.parametrize("variable", ["SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "WORLD_SIZE"])
def test_a_launcher_without_jax_distributed_is_an_error_that_names_the_variable(variable: str):
    done = run("jaxina.init()", **{variable: "4"})
    assert done.returncode == 1 and f"{variable}=4" in done.stderr and "jax.distributed.initialize()" in done.stderr
    assert run("jaxina.init()", **{variable: "1"}).returncode == 0


def test_a_forgotten_init_is_an_error_that_names_the_variable():
    launched = {"JAXINA_PROCESSES": "4", "JAXINA_RANK": "1", "JAXINA_COORDINATOR": "127.0.0.1:1"}
    done = run(SUM, **launched)
    assert done.returncode == 1, done.stderr
    assert "NotInitializedError" in done.stderr and "JAXINA_PROCESSES=4" in done.stderr
    assert run(SUM).returncode == 0


@pytest.mark.nightly
def test_sixty_programs_are_reported_as_the_engine_counts_them():
    script = Path(__file__).parents[2] / "benchmarks" / "jax" / "what_is_carried.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "60 programs, 0 of which" in done.stdout, done.stdout + done.stderr


HLO = """HloModule jit_step, is_scheduled=true

%add.clone (x: f32[], y: f32[]) -> f32[] {
  ROOT %sum = f32[] add(%x, %y)
}
%or (x: pred[], y: pred[]) -> pred[] {
  ROOT %any = pred[] or(%x, %y)
}

ENTRY %main (p: f32[2]) -> f32[2] {
  %all-reduce-start = (f32[2]{0}, f32[3]{0}) all-reduce-start(%p, %q), to_apply=%add.clone, metadata={op_name="jit(f)/psum"}
  %all-reduce-done = (f32[2]{0}, f32[3]{0}) all-reduce-done(%all-reduce-start)
  %any = pred[2]{0} all-reduce(%b), to_apply=%or
  %call = (token[], f32[2]{0}) custom-call(%t, %p), custom_call_target="jaxina_all_reduce", metadata={op_name="all-reduce"}
  %other = f32[2]{0} custom-call(%p), custom_call_target="other"
  ROOT %gathered = f32[4]{0} all-gather(%p), dimensions={0}
}
"""


def test_reading_a_module():
    found = list(_hlo.collectives(HLO, frozenset(("jaxina_all_reduce",))))
    assert [(one.kind, one.operands, one.sums, one.made_of) for one in found] == [
        ("all-reduce", 2, True, ("psum",)),
        ("all-reduce", 1, False, ()),
        ("jaxina_all_reduce", 2, True, ("all-reduce",)),
        ("all-gather", 1, False, ()),
    ]


@pytest.mark.parametrize(
    "path, made_of, moves",
    [
        ("jit(f)/jvp()/dot_general", ("dot_general",), False),
        ("jit(f)/(transpose(jvp())/dot_general:jvp(a:b)/reduce_sum)", ("dot_general", "reduce_sum"), False),
        ("jit(f)/(reduce_sum:squeeze:squeeze)", ("reduce_sum", "squeeze", "squeeze"), True),
        ("jit(f)/jit(take)/gather", ("gather",), True),
        ("", (), True),
    ],
)
def test_a_sum_that_may_only_move_data_is_told_by_what_it_was_made_of(path: str, made_of: tuple[str, ...], moves: bool):
    """XLA merges all-reduces of several operations, and writes their paths as one."""
    text = HLO.replace("jit(f)/psum", path) if path else HLO.replace(', metadata={op_name="jit(f)/psum"}', "")
    first = next(_hlo.collectives(text, frozenset()))
    assert (first.made_of, first.only_moves, first.sizes) == (made_of, moves, [2, 3])
