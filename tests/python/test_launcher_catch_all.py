"""jaxina carries a program that has only jit and shardings, with all collectives that the partitioner inserts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

PROGRAM = Path(__file__).with_name("partitioned_program.py")
RUN = [sys.executable, "-m", "jaxina.cli", "run"]


@pytest.mark.parametrize("processes, aggregator", [(2, "embedded"), (4, "embedded"), (3, "udp")], ids=str)
def test_a_partitioned_program(processes: int, aggregator: str):
    command = [*RUN, "-n", str(processes), "--aggregator", aggregator, str(PROGRAM)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    for right in (
        *("gradient: right, carried", "sum: right", "max: right", "max with a NaN: right"),
        *("sum of complex: right", "min of int16: right", "product: right", "gather: right"),
        *("scatter: right", "permute: right", "reshard: right", "transpose: right", "roll: right", "flip: right"),
        *("slice and concatenate: right", "sort: right", "padded convolution: right"),
        *(["two axes: right"] if processes == 4 else []),
    ):
        lines = [line.split("] ", 1)[1] for line in finished.stdout.splitlines()]
        assert lines.count(right) == processes, (right, finished.stdout)
