"""The elastic example: a worker is killed, a replacement comes, and all end with the parameters of a replay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import quick_compilation
from patience import PATIENCE

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "elastic" / "train.py"


def test_a_replacement_gets_the_state_and_all_end_alike(tmp_path: Path) -> None:
    """With fewer than two workers the others wait, so the replacement does not come too late."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JAXINA_", "XLA_"))}
    options = ["--workers", "2", "--least", "2", "--steps", "25", "--kill", "1", "--at", "12", "--replace"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *options, "--folder", str(tmp_path)],
        env=environment | quick_compilation.VARIABLES | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert "25 steps with 2 members" in done.stdout
    assert "parameters of 2 members and of the replay: " in done.stdout
    records = {
        file.stem: [json.loads(line) for line in file.read_text().splitlines()] for file in tmp_path.glob("*.jsonl")
    }
    assert [line["step"] for line in records["worker-1"]] == list(range(12))
    assert [line["step"] for line in records["replacement"][:-1]] == list(range(12, 25))
    losses = [line["loss"] for line in records["worker-0"][:-1]]
    assert losses[-1] < 0.8 * losses[0]
