"""Order across processes: each of sixteen independent psums always meets the same psum of the other processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

PROGRAM = Path(__file__).with_name("sixteen_psums.py")
REPETITIONS = 6


@pytest.mark.parametrize(
    "processes, devices, aggregator",
    [
        pytest.param(2, 1, "embedded", marks=pytest.mark.nightly),
        (4, 1, "embedded"),
        (2, 2, "embedded"),
        pytest.param(2, 1, "udp", marks=pytest.mark.nightly),
        pytest.param(4, 1, "udp", marks=pytest.mark.nightly),
        (2, 1, "roce"),
    ],
)
def test_sixteen_independent_psums_always_match(processes: int, devices: int, aggregator: str):
    command = [sys.executable, "-m", "jaxina.cli", "run", "-n", str(processes), "--aggregator", aggregator]
    finished = subprocess.run(
        [*command, str(PROGRAM), str(devices), str(REPETITIONS)], capture_output=True, text=True, timeout=PATIENCE
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    told = f"{REPETITIONS} x 16 sums over {processes * devices} devices are right"
    assert finished.stdout.count(told) == processes
