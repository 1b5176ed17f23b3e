"""Each psum of a program has an identity that all processes share. Who sums another psum gets an error, not a sum."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from eight_devices import DEVICES, on_devices, sharded
from jax import lax
from patience import PATIENCE

import jaxina
from jaxina import errors

PROGRAM = Path(__file__).with_name("two_programs.py")
THREADS = Path(__file__).with_name("two_threads.py")
CAMPAIGN = Path(__file__).parents[1] / "campaigns" / "different_programs.py"
X = np.arange(DEVICES * 4, dtype=np.float32).reshape(DEVICES, 4)


def identities(f: Callable[..., Any]) -> list[str]:
    with jaxina.collectives(True, bucket_bytes=0):
        text = jax.jit(f).lower(X).as_text()
    return re.findall(r"identity = (-?\d+) : i64", text)


def named(name: str, f: Callable[..., Any]) -> Callable[..., Any]:
    program = sharded(f, vma=False)
    program.__name__ = name
    return program


def two(x: Any) -> Any:
    return lax.psum(x, "w"), lax.psum(x * 2, "w")


def test_identities_are_of_the_program_and_the_place(job: jaxina.Job):
    first = identities(named("step", two))
    assert len(set(first)) == 2
    jax.clear_caches()
    assert identities(named("step", two)) == first
    assert not set(identities(named("other_step", two))) & set(first)
    pairs = [[i, i + 1] for i in range(0, DEVICES, 2)]
    grouped = identities(named("step", lambda x: lax.psum(x, "w", axis_index_groups=pairs)))
    assert not set(grouped) & set(first)


def test_devices_at_different_psums_of_equal_shape_get_an_error(job: jaxina.Job):
    def disagree(x: Any) -> Any:
        return lax.cond(lax.axis_index("w") == 3, lambda: lax.psum(x, "w"), lambda: lax.psum(x * 2, "w"))

    with pytest.raises(errors.MismatchError), errors.typed(), jaxina.collectives(True):
        jax.jit(sharded(disagree, vma=False))(on_devices(X)).block_until_ready()


def test_random_programs_that_differ_in_one_operation_never_make_a_sum():
    """A short run of the campaign. A full one has 1,000 pairs that differ and 10,000 that are equal."""
    command = [sys.executable, str(CAMPAIGN), "--differ", "12", "--equal", "24"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert finished.stdout.count("{'MismatchError': 12}") == 2 and finished.stdout.count("{'a sum': 24}") == 2


@pytest.mark.parametrize("aggregator", ["embedded", "udp"])
def test_processes_that_run_different_programs_get_an_error(aggregator: str):
    command = [sys.executable, "-m", "jaxina.cli", "run", "-n", "2", "--aggregator", aggregator]
    finished = subprocess.run([*command, str(PROGRAM)], capture_output=True, text=True, timeout=PATIENCE)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert finished.stdout.count("the same program: right") == 2
    told = re.findall(r"different programs: (\w+)", finished.stdout)
    assert len(told) == 2 and "MismatchError" in told
    # The process that hears of the mismatch first leaves. The other may hear of that before it hears of the mismatch.
    assert set(told) <= {"MismatchError", "WorkerLostError"}


@pytest.mark.parametrize("mode", ["together", "crossed"])
@pytest.mark.parametrize("aggregator", ["embedded", "udp"])
def test_programs_of_several_threads_get_their_own_sums_or_an_error(mode: str, aggregator: str):
    command = [sys.executable, "-m", "jaxina.cli", "run", "-n", "2", "--aggregator", aggregator]
    finished = subprocess.run([*command, str(THREADS), mode], capture_output=True, text=True, timeout=PATIENCE)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "WRONG" not in finished.stdout
    told = {rank: re.findall(rf"\[{rank}\] error: (\w+)", finished.stdout) for rank in (0, 1)}
    sums = finished.stdout.count("] right")
    # A job that has ended gives its error to every later sum, so both threads of both processes get one.
    assert sums == 2 * 2 * 40 or [len(found) for found in told.values()] == [2, 2], finished.stdout
    assert set(told[0] + told[1]) <= {"MismatchError", "WorkerLostError"}
    if mode == "crossed":
        assert "MismatchError" in told[0] + told[1] and sums == 0
        assert "threads" in finished.stdout
