"""Measures the time to a target over links of given rates, beside what the model of `experiments.ways` computes.

    apt-get install iproute2 ethtool
    python -m experiments.measured_time --rates 10 30 100      # as root; writes results/measured_time.*

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
import itertools
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from experiments import documents, racers, records, workloads
from experiments.racers import WORKERS
from experiments.recorded import BASELINE, Case, Record, grouped
from experiments.records import RESULTS
from experiments.ways import Way, crossing, target_of, ways
from jaxina import compressors, testbed
from jaxina.bench.stolen_time import StolenTime

FILE = RESULTS / "measured_time.json"
FAST = 10_000  # Mbit/s, where a step is nearly all computation
SPECS = (BASELINE, "int32", "int8", "topk:0.01", "dgc:0.01:momentum=0")
_LIMIT_S = 1800

Runs = Mapping[str, Record]
"""By the compressor's canonical spec: the recorded run of the seed."""


def recorded_runs(workload: str, seed: int) -> dict[str, Record]:
    """Returns the recorded runs that can be measured: those of SPECS and of the seed, with WORKERS.

    Raises:
      SystemExit: the baseline was never recorded.
    """
    runs = grouped([r for r in racers.records() if r["setting"]["seed"] == seed]).get(Case(workload, WORKERS), {})
    wanted = [compressors.spec_of(compressors.get(spec)) for spec in SPECS]
    found = {spec: runs[spec][0] for spec in wanted if spec in runs}
    if BASELINE not in found:
        sys.exit(f"no run of {workload} with {WORKERS} workers is recorded: python -m experiments.convergence")
    return found


def train(rate: int, runs: Runs) -> dict[str, Any]:
    """Trains with all compressors over links of so many Mbit/s.

    Returns:
      By spec, "step_seconds" and "scores", as `trainer.Outcome` has them.
    """
    setting = runs[BASELINE]["setting"]
    chosen = [f"{spec}={run['setting']['learning_rate_scale']}" for spec, run in runs.items()]
    testbed.up(testbed.Size(WORKERS), testbed.Link(rate))
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "outcomes.json"
            launcher = [sys.executable, "-m", "jaxina.cli", "testbed", "run", "run", "-n", WORKERS]
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
    free = {spec: {"1": nothing} for spec in runs}
    costs = {"gradient_ms": {name: nothing}, "compression_ns": free, "native_ns": {}}
    found = {way.spec: way for way in ways({spec: [run] for spec, run in runs.items()}, costs, at_papers_size=False)}
    step = {spec: statistics.median(fast[spec]["step_seconds"][1:]) for spec in found}
    return {
        spec: dataclasses.replace(way, compute_s=max(0.0, step[spec] - way.megabits / FAST))
        for spec, way in found.items()
    }


@dataclasses.dataclass(frozen=True)
class Point:
    """A compressor over links of one rate. Times are in seconds, medians of the rounds; None: it never got there.

    Attributes:
      ratio: measured / model, the median of the rounds.
      low, high: the shortest and the longest measured time.
    """

    rate: int
    spec: str
    steps: float | None = None
    measured: float | None = None
    model: float | None = None
    ratio: float | None = None
    low: float = math.nan
    high: float = math.nan


def points(document: Mapping[str, Any], runs: Runs) -> list[Point]:
    """Returns all compressors over all links."""
    higher, target = runs[BASELINE]["outcome"]["higher_is_better"], target_of([runs[BASELINE]])
    models = [modelled(runs, measured[str(FAST)]) for measured in document["rounds"]]
    found = []
    for rate in document["rates"]:
        for spec, way in models[0].items():
            ours = [seconds_to(target, higher, measured[str(rate)][spec]) for measured in document["rounds"]]
            if way.steps is None or None in ours:
                found.append(Point(rate, spec))
                continue
            model = [of[spec].seconds(rate / 1e3) for of in models]
            ratios = [a / b for a, b in zip(ours, model, strict=True)]
            medians = [float(np.median(values)) for values in (ours, model, ratios)]
            found.append(Point(rate, spec, way.steps, *medians, low=min(ours), high=max(ours)))
    return found


def table(document: Mapping[str, Any], runs: Runs) -> str:
    """Returns the page as Markdown."""
    setting, outcome = runs[BASELINE]["setting"], runs[BASELINE]["outcome"]
    lines = [
        "# Time to accuracy over real links",
        "",
        (
            f"Written by `python -m experiments.measured_time`; its text says how. {setting['workload']}, "
            f"{setting['workers']} workers, {outcome['parameters']:,} parameters, seed {setting['seed']}. "
            f"{records.made_with([document])} At most {max(document['stolen']):.1%} of the cores' time stolen. "
            f"Medians of {len(document['rounds'])} rounds, with the shortest and the longest time. "
            f"The target is `none`'s {outcome['metric']} after three quarters of its steps."
        ),
        "",
        "| Mbit/s of a link | compressor | steps | measured, s | model, s | measured / model |",
        "|---:|---|---:|---:|---:|---:|",
    ]
    for point in points(document, runs):
        cells = ["never", "-", "-", "-"]
        if point.measured is not None:
            measured = f"{point.measured:.1f} ({point.low:.1f} - {point.high:.1f})"
            cells = [f"{point.steps:.0f}", measured, f"{point.model:.1f}", f"{point.ratio:.2f}"]
        lines.append(f"| {point.rate} | `{point.spec}` | " + " | ".join(cells) + " |")
    lines += [
        "",
        "Who is first, measured and by the model. A `~` stands between two whose measured times overlap:",
        "",
    ]
    for rate in document["rates"]:
        there = [point for point in points(document, runs) if point.rate == rate and point.measured is not None]
        ours, model = (sorted(there, key=lambda point: getattr(point, by)) for by in ("measured", "model"))
        order = "".join(
            (" ~ " if before.high >= point.low else ", ") + f"`{point.spec}`"
            for before, point in itertools.pairwise(ours)
        )
        same = "the same" if ours == model else ", ".join(f"`{point.spec}`" for point in model)
        lines.append(f"* {rate} Mbit/s: `{ours[0].spec}`{order}; by the model {same}.")
    return "\n".join([*lines, ""])


def plot(document: Mapping[str, Any], runs: Runs, file: Path) -> None:
    """Draws a point for the median of what was measured, a bar for its range, and a line for the model."""
    import matplotlib.pyplot as plt

    from experiments.figures import name, readable_log_scale
    from experiments.style import COLOURS

    found, rates = points(document, runs), document["rates"]
    figure, axes = plt.subplots(figsize=(8, 4.8), layout="constrained")
    width = 0.8 / len(runs)
    for number, spec in enumerate(runs):
        of = {point.rate: point for point in found if point.spec == spec and point.measured is not None}
        places = [rates.index(rate) + (number - (len(runs) - 1) / 2) * width for rate in of]
        measured, model = ([getattr(point, by) for point in of.values()] for by in ("measured", "model"))
        beyond = [[p.measured - p.low for p in of.values()], [p.high - p.measured for p in of.values()]]
        axes.errorbar(
            places, measured, beyond, fmt="o", color=COLOURS[number], markersize=7, capsize=3, label=name(spec)
        )
        label = "the model" if number == 0 else None
        ends = ([place + side * width / 2 for place in places] for side in (-1, 1))
        axes.hlines(model, *ends, COLOURS[-1], linewidth=2, label=label, zorder=1)
    axes.set_xticks(range(len(rates)), [f"{rate} Mbit/s" for rate in rates])
    axes.set(ylabel="seconds to the target")
    figure.suptitle("Time to float32's score after three quarters of its steps")
    readable_log_scale(axes)
    axes.grid(alpha=0.3, axis="y")
    figure.legend(loc="outside lower center", ncols=3, fontsize=9)
    figure.savefig(file, dpi=100)
    plt.close(figure)


def settings(workload: str = "clickthrough", rates: Sequence[int] = (10, 30, 100), seed: int = 0) -> dict[str, Any]:
    """Returns what a document is made of. `rates` are in Mbit/s. The defaults are those of the command."""
    specs = {compressors.spec_of(compressor): compressor.revision for compressor in map(compressors.get, SPECS)}
    revisions = documents.revisions([workload])
    return {"workload": workload, "rates": list(rates), "seed": seed, "compressors": specs, "revisions": revisions}


def main() -> None:
    usual = settings()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=workloads.names(), default=usual["workload"])
    parser.add_argument("--rates", nargs="+", type=int, default=usual["rates"], help="Mbit/s of a worker's link")
    parser.add_argument("--seed", type=int, default=usual["seed"])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    runs = recorded_runs(options.workload, options.seed)
    making = documents.Making()
    made_of = settings(options.workload, options.rates, options.seed)
    document: dict[str, Any] = {**made_of, "rounds": [], "stolen": []}
    for number in range(options.rounds):
        stolen = StolenTime()
        turn = track([FAST, *options.rates], f"round {number + 1} of {options.rounds}")
        document["rounds"].append({str(rate): train(rate, runs) for rate in turn})
        document["stolen"].append(stolen.share())
    document |= making.ended()
    FILE.write_text(json.dumps(document) + "\n")
    text = table(document, runs)
    FILE.with_suffix(".md").write_text(text)
    plot(document, runs, FILE.with_suffix(".png"))
    print(text)


if __name__ == "__main__":
    main()
