"""Time of a training step with sums by jaxina and by gloo: a model that mostly communicates, and one that computes."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import drawing
import runs

WORKERS, RATE = 4, 1000
MODELS = ("vgg", "resnet")
SIZE, CALLS = None, 10  # the size is the model's; 10 steps of each kind
_WORKER = Path(__file__).with_name("training_step.py")
_ROOT = _WORKER.parents[2]


def measure(size: None, calls: int) -> list[dict[str, Any]]:
    rows = []
    path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with runs.links(WORKERS, RATE):
        for model in MODELS:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "steps.json"
                program = [str(_WORKER), model, str(calls), str(file)]
                command = ["testbed", "run", "run", "-n", str(WORKERS), "--aggregator", "udp", *program]
                runs.jaxina(command, {"PYTHONPATH": path})
                rows.append({"model": model, **json.loads(file.read_text())})
            for kind in ("jaxina", "gloo", "alone"):
                rows[-1][kind] = statistics.median(rows[-1]["times_ms"][kind])
    return rows


def table(rows: list[dict[str, Any]]) -> list[list[str]]:
    head = ["model", "gradient, MB", "alone, ms", "jaxina, ms", "gloo, ms", "gloo / jaxina", "difference after a step"]
    return [head] + [
        [r["model"], f"{4e-6 * r['parameters']:.1f}", f"{r['alone']:.0f}", f"{r['jaxina']:.0f}", f"{r['gloo']:.0f}",
         f"{r['gloo'] / r['jaxina']:.2f}", f"{r['difference_after_a_step']:.1e}"]
        for r in rows
    ]  # fmt: skip


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    figure, both = drawing.axes(len(rows), 3.4)
    for row, axes in zip(rows, both, strict=True):
        names = ["alone", "jaxina", "gloo"]
        colours = ["#888888", drawing.COLOURS["jaxina"], drawing.COLOURS["gloo"]]
        axes.bar_label(axes.bar(names, [row[n] for n in names], 0.6, color=colours), fmt="%.0f", fontsize=8)
        axes.set(title=f"{row['model']}, {4e-6 * row['parameters']:.1f} MB", ylabel="ms of a training step")
    drawing.save(figure, path)
