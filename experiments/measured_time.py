"""Measures the time to a target over links of given rates, beside what the model of `experiments.ways` computes.

    apt-get install iproute2 ethtool
    python -m experiments.measured_time --rates 10 30 100      # as root; writes results/measured_time.json and .md

Four workers, each a process behind a link of its own in a testbed (`jaxina testbed`), train a workload with the seed
and the learning rates of recorded runs. jaxina sums what a compressor sums, over udp with a software switch. XLA's gloo
sums float32 (`none`) in a ring, and carries all gathers.

The model's computation is measured: the median step over links so fast that they hardly count, minus what they count.
Its steps to the target and its bytes are those of the recorded run. So this tests what the model says of the network
and of adding up, not the steps. Compiling is left out: the first step counts as much as the median one.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from experiments import grid, records, workloads
from experiments.grid import Grid
from experiments.recorded import BASELINE, Record, grouped
from experiments.records import RESULTS
from experiments.ways import Way, crossing, target_of, ways
from jaxina import testbed
from jaxina.bench.stolen_time import StolenTime

FILE = RESULTS / "measured_time.json"
FAST = 10_000  # Mbit/s, where a step is nearly all computation
SPECS = (BASELINE, "int32", "int8", "topk:0.01")
_LIMIT_S = 1800

Runs = Mapping[str, Record]
"""By the compressor's canonical spec: the recorded run of the seed."""


def recorded_runs(study: Grid, workload: str, workers: int, seed: int) -> dict[str, Record]:
    """Returns the recorded runs that can be measured: those of SPECS and of the seed.

    Raises:
      SystemExit: the baseline was never recorded.
    """
    part = study.selected([workload], SPECS, [workers])
    wanted = {entry.compressor for entry in part.entries()}
    groups = grouped([r for r in records.read(study.file) if r["setting"]["seed"] == seed])
    runs = next((found for case, found in groups.items() if case == (workload, workers)), {})
    found = {spec: of[0] for spec, of in runs.items() if spec in wanted}
    if BASELINE not in found:
        sys.exit(f"{study.file} has no run of {workload} with {workers} workers: python -m experiments.convergence")
    return found


def train(rate: int, runs: Runs, workers: int) -> dict[str, Any]:
    """Trains with all compressors over links of so many Mbit/s.

    Returns:
      By spec, "step_seconds" and "scores", as `trainer.Outcome` has them.
    """
    setting = runs[BASELINE]["setting"]
    chosen = [f"{spec}={run['setting']['learning_rate_scale']}" for spec, run in runs.items()]
    testbed.up(testbed.Size(workers), testbed.Link(rate))
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "outcomes.json"
            launcher = [sys.executable, "-m", "jaxina.cli", "testbed", "run", "run", "-n", workers]
            program = [sys.executable, "-m", "experiments.linked_worker", file, setting["workload"], setting["seed"]]
            whole = [str(part) for part in (*launcher, "--aggregator", "udp", *program, *chosen)]
            done = subprocess.run(
                whole, cwd=records.ROOT, capture_output=True, text=True, timeout=_LIMIT_S, check=False
            )
            if done.returncode:
                said = done.stdout[-1000:] + done.stderr[-2000:]
                sys.exit(f"{' '.join(whole)} ended with exit status {done.returncode}:\n{said}")
            return json.loads(file.read_text())
    finally:
        testbed.down()


def seconds_to(target: float, higher_is_better: bool, outcome: Mapping[str, Any]) -> float | None:
    """Returns the seconds of training until the score first reaches the target, or None if it never does."""
    steps, scores = zip(*outcome["scores"], strict=True)
    if None in scores:
        return None
    reached = crossing(target, higher_is_better, np.array(steps), np.array(scores))
    if reached is None:
        return None
    each = [statistics.median(outcome["step_seconds"][1:]), *outcome["step_seconds"][1:]]
    whole = int(reached)
    return sum(each[:whole]) + (reached - whole) * (each[whole] if whole < len(each) else 0.0)


def modelled(runs: Runs, fast: Mapping[str, Any]) -> dict[str, Way]:
    """Returns the ways by the model, with the computation that was measured over fast links."""
    (name,) = {run["setting"]["workload"] for run in runs.values()}
    nothing = {"median": 0.0}
    costs = {"gradient_ms": {name: nothing}, "compression_ns": dict.fromkeys(runs, nothing), "native_ns": {}}
    found = {way.spec: way for way in ways({spec: [run] for spec, run in runs.items()}, costs, at_papers_size=False)}
    step = {spec: statistics.median(fast[spec]["step_seconds"][1:]) for spec in found}
    return {
        spec: dataclasses.replace(way, compute_s=max(0.0, step[spec] - way.megabits / FAST))
        for spec, way in found.items()
    }


def rows(document: Mapping[str, Any], runs: Runs) -> list[dict[str, Any]]:
    """Returns for each rate and compressor the steps, and the seconds measured and by the model."""
    higher = runs[BASELINE]["outcome"]["higher_is_better"]
    target = target_of([runs[BASELINE]])
    found = []
    for measured in document["rounds"]:
        by_model = modelled(runs, measured[str(FAST)])
        for rate in document["rates"]:
            for spec, way in by_model.items():
                ours = seconds_to(target, higher, measured[str(rate)][spec])
                model = None if way.steps is None else way.seconds(rate / 1e3)
                found.append({"rate": rate, "spec": spec, "steps": way.steps, "measured": ours, "model": model})
    return found


def table(document: Mapping[str, Any], runs: Runs) -> str:
    """Returns the page as Markdown."""
    setting, outcome = runs[BASELINE]["setting"], runs[BASELINE]["outcome"]
    found = rows(document, runs)
    lines = [
        "# Time to accuracy over real links",
        "",
        (
            f"Written by `python -m experiments.measured_time`; its text says how. {setting['workload']}, "
            f"{setting['workers']} workers, {outcome['parameters']:,} parameters, seed {setting['seed']}. "
            f"{document['provenance']['machine']['cores']} cores, at most {max(document['stolen']):.1%} of their time "
            f"stolen. Medians of {len(document['rounds'])} rounds. "
            f"The target is `none`'s {outcome['metric']} after three quarters of its steps."
        ),
        "",
        "| Mbit/s of a link | compressor | steps | measured, s | model, s | measured / model |",
        "|---:|---|---:|---:|---:|---:|",
    ]
    for rate in document["rates"]:
        firsts: dict[str, dict[str, float]] = {"measured": {}, "model": {}}
        for spec in runs:
            of = [row for row in found if (row["rate"], row["spec"]) == (rate, spec)]
            reached = [row for row in of if row["measured"] is not None and row["model"] is not None]
            if not reached:
                lines.append(f"| {rate} | `{spec}` | never | - | - | - |")
                continue
            ratio = statistics.median(row["measured"] / row["model"] for row in reached)
            for which, seconds in firsts.items():
                seconds[spec] = statistics.median(row[which] for row in reached)
            lines.append(
                f"| {rate} | `{spec}` | {reached[0]['steps']:.0f} | {firsts['measured'][spec]:.1f} | "
                f"{firsts['model'][spec]:.1f} | {ratio:.2f} |"
            )
        if firsts["measured"]:
            order = {which: " < ".join(f"`{s}`" for s in sorted(of, key=of.get)) for which, of in firsts.items()}
            same = "the same by the model" if order["measured"] == order["model"] else f"by the model {order['model']}"
            lines.append(f"| {rate} | *order* | | {order['measured']} | {same} | |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=workloads.names(), default="clickthrough")
    parser.add_argument("--rates", nargs="+", type=int, default=[10, 30, 100], help="Mbit/s of a worker's link")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    study = Grid.read(grid.DEFAULT)
    workers = study.workers[0]
    runs = recorded_runs(study, options.workload, workers, options.seed)
    document: dict[str, Any] = {"workload": options.workload, "rates": options.rates, "rounds": [], "stolen": []}
    for number in range(options.rounds):
        stolen = StolenTime()
        turn = track([FAST, *options.rates], f"round {number + 1} of {options.rounds}")
        document["rounds"].append({str(rate): train(rate, runs, workers) for rate in turn})
        document["stolen"].append(stolen.share())
    document["provenance"] = records.provenance()
    FILE.write_text(json.dumps(document) + "\n")
    text = table(document, runs)
    FILE.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
