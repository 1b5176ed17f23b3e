"""Programs that sum without a switch that sums: at the workers' own servers, with combining switches, and in a ring.

Every type, several groups at once, and lost packets.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

PROGRAM = Path(__file__).with_name("direct_sums.py")


@pytest.mark.parametrize(
    "aggregator, processes, loss",
    [("direct", 3, 0.0), ("direct", 4, 0.01), ("atp", 4, 0.01), ("netreduce", 3, 0.0), ("netreduce", 4, 0.01)],
)
def test_all_types_are_exact_in_all_groups(aggregator: str, processes: int, loss: float, tmp_path: Path):
    stats = tmp_path / "stats.json"
    command = [sys.executable, "-m", "jaxina.cli", "run", "-n", str(processes), "--aggregator", aggregator]
    finished = subprocess.run(
        [*command, "--loss", str(loss), "--stats-json", str(stats), str(PROGRAM)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert finished.stdout.count("42 sums are right") == processes, finished.stdout
    total = json.loads(stats.read_text())["total"]
    assert (total["packets_dropped"] > 0) == (loss > 0)
