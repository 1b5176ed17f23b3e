"""examples/gpt: its three layouts train alike, with XLA and with jaxina. A run goes on from its checkpoint."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import quick_compilation
from patience import PATIENCE

EXAMPLE = Path(__file__).parents[2] / "examples" / "gpt" / "train.py"
TINY = ("--width", "16", "--depth", "1", "--heads", "2", "--length", "16", "--batch-size", "8", "--sample", "5")


@pytest.fixture
def train(tmp_path):
    written = tmp_path / "text.txt"
    written.write_text("KING RICHARD: a horse, a horse, my kingdom for a horse!\n" * 60)
    runs = iter(range(100))
    (tmp_path / "without" / "orbax").mkdir(parents=True)
    (tmp_path / "without" / "orbax" / "__init__.py").write_text("raise ImportError('only checkpoints need Orbax')")

    def run(*options: Any, workers: int = 0) -> dict[str, Any]:
        found = tmp_path / f"{next(runs)}.json"
        start = ["-m", "jaxina.cli", "run", "-n", str(workers)] if workers else []
        command = [sys.executable, *start, str(EXAMPLE), *TINY, "--text", str(written), "--json", str(found)]
        environment = {**os.environ, **quick_compilation.VARIABLES, "JAX_NUM_CPU_DEVICES": "1" if workers else "4"}
        if "--checkpoints" not in options:
            environment["PYTHONPATH"] = str(tmp_path / "without")
        finished = subprocess.run(
            [*command, *map(str, options)], capture_output=True, text=True, timeout=PATIENCE, env=environment
        )
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return {**json.loads(found.read_text()), "out": finished.stdout}

    return run


def test_two_workers_train_as_one_process_would(train):
    by_jaxina = train("--steps", 4, "--collective", "jaxina", workers=2)
    assert "carries 1 collective" in by_jaxina["out"]
    np.testing.assert_allclose(by_jaxina["losses"], train("--steps", 4)["losses"], rtol=1e-4)
    assert by_jaxina["losses"][-1] < by_jaxina["losses"][0]
    assert by_jaxina["sample"].startswith("KING ") and len(by_jaxina["sample"]) == len("KING ") + 5


@pytest.mark.nightly
def test_all_layouts_train_alike(train):
    found = {layout: train("--steps", 5, "--layout", layout) for layout in ("data", "fsdp", "tensor")}
    for one in found.values():
        np.testing.assert_allclose(one["losses"], found["data"]["losses"], rtol=1e-4)
        assert abs(one["test_loss"] - found["data"]["test_loss"]) < 1e-3


@pytest.mark.nightly
@pytest.mark.parametrize("layout", ["data", "fsdp"])
def test_a_run_goes_on_from_its_checkpoint(train, tmp_path, layout):
    options = ("--steps", 6, "--layout", layout, "--checkpoints", tmp_path / "kept", "--checkpoint-every", 3)
    whole = train(*options)
    shutil.rmtree(tmp_path / "kept" / "6")
    assert train(*options, "--resume")["losses"] == whole["losses"][3:]
