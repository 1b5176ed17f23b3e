#!/usr/bin/env python3
"""Trains Flax's own examples, ImageNet and Gemma, with jaxina and with gloo, and compares losses and step times.

    git clone --depth 1 https://github.com/google/flax FLAX
    pip install -r benchmarks/jax/flax_examples.txt
    python benchmarks/jax/flax_examples.py --flax FLAX [--examples imagenet gemma] [--steps 20] [--aggregator udp]

The examples' code is not changed. flax_examples_worker.py replaces the data that they would download, and sets small
configurations. Every process has one CPU device. The exit code is 1 if a run fails, or if in any step jaxina's loss
differs from gloo's by more than the share TOLERANCE of it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from rich.console import Console
from rich.table import Table

WORKER = Path(__file__).with_name("flax_examples_worker.py")
WAYS = ("jaxina", "gloo")
LIMIT_S = 1200
# Both runs compute in float32 and add in different orders. The difference grows with every step.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Run:
    example: str
    processes: int
    fsdp: int = 1
    tensor: int = 1

    @property
    def layout(self) -> str:
        return "data parallel (pmap)" if self.example == "imagenet" else f"fsdp = {self.fsdp}, tensor = {self.tensor}"


RUNS = (
    Run("imagenet", 2),
    Run("imagenet", 4),
    Run("gemma", 2, fsdp=2),
    Run("gemma", 4, fsdp=4),
    Run("gemma", 2, tensor=2),
    Run("gemma", 4, fsdp=2, tensor=2),
)


def train(run: Run, way: str, options: argparse.Namespace, folder: Path) -> dict[str, Any] | str:
    """Returns the results of process 0, or the end of the output if the job failed."""
    folder.mkdir(parents=True)
    result = folder / "result.json"
    command = [sys.executable, "-m", "jaxina.cli", "run", "-n", str(run.processes), "--aggregator", options.aggregator]
    command += [str(WORKER), run.example, way, str(options.flax), str(folder), str(options.steps), str(run.tensor)]
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ}
    log = folder / "log"
    try:
        with log.open("w") as output:
            job = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, env=environment, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"not done after {LIMIT_S} s\n{log.read_text()[-4000:]}"
    if job.returncode or not result.exists():
        return f"ended with {job.returncode}\n{log.read_text()[-4000:]}"
    return json.loads(result.read_text())


def difference(ours: list[float], theirs: list[float]) -> float:
    """Returns the largest difference of the losses in any step, relative to gloo's loss."""
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flax", type=Path, required=True, help="a checkout of Flax")
    parser.add_argument("--examples", nargs="+", default=["imagenet", "gemma"], choices=("imagenet", "gemma"))
    parser.add_argument("--steps", type=int, default=20, choices=range(2, 21), metavar="2 .. 20")
    parser.add_argument("--aggregator", default="embedded")
    options = parser.parse_args()
    if not (options.flax / "examples" / "gemma" / "train.py").exists():
        parser.error(f"{options.flax} is no checkout of Flax: it has no examples/gemma/train.py")
    options.flax = options.flax.resolve()

    console = Console(width=None if sys.stdout.isatty() else 150)
    table = Table(title=f"JAX {jax.__version__}, {options.aggregator}, {options.steps} steps", title_justify="left")
    for column in ("example", "layout", "processes"):
        table.add_column(column)
    for column in (
        "first loss",
        "last, gloo",
        "last, jaxina",
        "difference",
        "step, gloo",
        "step, jaxina",
        "sums",
        "collectives",
    ):
        table.add_column(column, justify="right")
    wrong = []
    with tempfile.TemporaryDirectory() as root:
        for run in (run for run in RUNS if run.example in options.examples):
            name = f"{run.example}, {run.layout}, {run.processes} processes"
            with console.status(name):
                found = {way: train(run, way, options, Path(root, name.replace(" ", ""), way)) for way in WAYS}
            if failed := [f"{name}, {way}: {one}" for way, one in found.items() if isinstance(one, str)]:
                wrong += failed
                continue
            ours, theirs = (found[way] for way in WAYS)
            far = difference(ours["loss"], theirs["loss"])
            if far > TOLERANCE:
                wrong.append(f"{name}: a loss differs by {far:.1e}: {ours['loss']} and {theirs['loss']}")
            if not ours["summed"]:
                wrong.append(f"{name}: the engine has summed nothing")
            steps = [f"{1e3 * statistics.median(one['seconds'][1:]):.0f} ms" for one in (theirs, ours)]
            losses = [f"{loss:.5f}" for loss in (theirs["loss"][0], theirs["loss"][-1], ours["loss"][-1])]
            carried = (str(ours["summed"]), str(ours["carried"]))
            table.add_row(run.example, run.layout, str(run.processes), *losses, f"{far:.1e}", *steps, *carried)
    console.print(table)
    console.print(
        "sums: that the engine counted in the whole run. collectives: carried in the text of all compiled programs."
    )
    console.print(*wrong, sep="\n", markup=False, soft_wrap=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
