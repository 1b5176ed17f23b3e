"""The recovery example: a worker is killed, and training goes on from the checkpoint to the same losses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import quick_compilation
from patience import PATIENCE

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "recovery" / "train.py"
STEPS = 14


def train(folder: Path, *options: str, devices: int = 1) -> tuple[list[dict], str]:
    """Runs the example. Returns the records of the steps, in the order they were made, and the text on stderr."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JAXINA_", "XLA_"))}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--steps", str(STEPS), "--folder", str(folder), *options],
        env=environment | quick_compilation.VARIABLES | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(devices)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert f"{STEPS} steps" in done.stdout
    return [json.loads(line) for line in (folder / "loss.jsonl").read_text().splitlines()], done.stderr


def losses(records: list[dict]) -> list[float]:
    """Returns the loss of each step. Of a step that was repeated, the last loss counts."""
    last = {record["step"]: record["loss"] for record in records}
    assert sorted(last) == list(range(STEPS))
    return [last[step] for step in range(STEPS)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The losses of a run without a death, on three devices of one process. The sums have the bits of three workers."""
    records, _ = train(tmp_path_factory.mktemp("undisturbed"), "--workers", "1", devices=3)
    assert [record["step"] for record in records] == list(range(STEPS))
    assert records[-1]["loss"] < 0.8 * records[0]["loss"]
    return losses(records)


def test_survivors_go_on_from_the_checkpoint(tmp_path: Path, undisturbed: list[float]) -> None:
    records, said = train(tmp_path, "--workers", "3", "--kill", "1", "--at", "8")
    assert said.count("WORKER_LOST") >= 2 and "worker 1" in said
    assert [record["step"] for record in records] == [*range(8), *range(5, STEPS)]  # step 5 was saved
    assert [record["workers"] for record in records] == [3] * 8 + [2] * (STEPS - 5)
    assert losses(records) == pytest.approx(undisturbed, rel=1e-3)


def test_a_replacement_goes_on_to_the_same_bits(tmp_path: Path, undisturbed: list[float]) -> None:
    """Worker 0 is killed, which writes the checkpoints."""
    records, said = train(tmp_path, "--workers", "3", "--kill", "0", "--at", "8", "--replace")
    assert said.count("WORKER_LOST") >= 2 and "worker 0" in said
    assert records[-1]["workers"] == 3
    assert losses(records) == undisturbed
