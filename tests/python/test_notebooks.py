"""The notebooks run from top to bottom as plain programs, and each .ipynb has the cells of its .py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import quick_compilation

for package in ("flax", "optax", "matplotlib"):
    pytest.importorskip(package)

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(file for file in (ROOT / "notebooks").glob("*.py") if file.name != "execute.py")
LONG = {"compressors_compared", "schedules_and_accuracy"}


def test_there_are_notebooks():
    assert len(SOURCES) == 5


@pytest.mark.parametrize(
    "source",
    [pytest.param(file, marks=pytest.mark.nightly if file.stem in LONG else ()) for file in SOURCES],
    ids=lambda file: file.stem,
)
def test_notebook_runs(source, tmp_path):
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "MPLBACKEND": "agg",
        "PYTHONPATH": str(ROOT),
        **quick_compilation.VARIABLES,
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", str(source)],
        capture_output=True,
        text=True,
        timeout=290,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("source", SOURCES, ids=lambda file: file.stem)
def test_executed_notebook_is_current(source):
    """`make notebooks` writes the .ipynb. Run it again after each change of a .py."""
    jupytext = pytest.importorskip("jupytext")
    executed = json.loads(source.with_suffix(".ipynb").read_text())
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in executed["cells"]]
    assert cells == [(cell.cell_type, cell.source) for cell in jupytext.read(source).cells]
    code = [cell for cell in executed["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code)
    assert not [out for cell in code for out in cell["outputs"] if out["output_type"] == "error"]
