"""The table of partitioned programs: two of its training steps, and a check that its bound rejects coarse sums."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from patience import PATIENCE

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "jax"
N = 4


@pytest.mark.parametrize("name", ["train step, FSDP", pytest.param("train step, nnx.jit", marks=pytest.mark.nightly)])
def test_a_training_step_gives_what_it_gives_with_gloo(name: str):
    command = [sys.executable, str(BENCHMARKS / "partitioned.py"), "--processes", "2", "--programs", name]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "1 runs of 1 programs, 0 wrong, 0 jobs failed" in finished.stdout


@pytest.mark.parametrize("bits, within", [(24, True), (12, False)])
def test_the_bound_tells_coarser_sums(monkeypatch, bits: int, within: bool):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import partitioned_bound
    import partitioned_programs

    program = partitioned_programs.programs()["train step, data parallel"]
    with jax.enable_x64(True):
        bounds = partitioned_bound.bounds(program.function, program.inputs, N)

    def step(order: list[int], bits: int) -> list[np.ndarray]:
        """A training step with the gradients of N parts of the batch, rounded to `bits` and summed in this order."""
        parameters, *batch = program.inputs
        parts = zip(*(np.split(rows, N) for rows in batch), strict=True)
        gradient = jax.jit(jax.value_and_grad(partitioned_programs.loss))
        values = [jax.tree.leaves(gradient(parameters, *part)) for part in parts]
        grid = [[jax.lax.reduce_precision(leaf, 8, bits - 1) for leaf in values[i]] for i in order]
        value, *gradients = (sum(leaves[1:], start=leaves[0]) / N for leaves in zip(*grid, strict=True))
        return [old - 0.1 * new for old, new in zip(jax.tree.leaves(parameters), gradients, strict=True)] + [value]

    right, other = step([0, 1, 2, 3], 24), step([3, 1, 0, 2], bits)
    shares = [
        partitioned_bound.share(*map(np.asarray, pair), bound)
        for *pair, bound in zip(right, other, bounds, strict=True)
    ]
    assert any(shares), "the order makes no difference"
    assert (max(shares) <= 1) == within, shares
