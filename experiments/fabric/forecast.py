"""Foretells a run on the testbed: the same links at the same times, the same network, digits and steps.

    benchmarks/testbed/fabric.py --json bed.json           # on the testbed, as root
    python -m experiments.fabric.forecast bed.json         # in virtual time, and both side by side

Three things are measured on the testbed: how long each worker's computations take, of which one is drawn at random each
time; what the links have when; and how long one psum takes while the slowest links have each of the schedule's rates.
The last one says how many bytes a psum costs for each byte of the model. MLfabric's transfers have their bytes and
those of their packets' headers. What else processes do takes no time here. Seconds count from the first commit.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import simpy
from rich.console import Console
from rich.table import Table

from experiments.fabric.baselines import Start, ring
from experiments.fabric.conditions import Cluster, Conditions
from experiments.fabric.example_task import BYTES, ExampleTask
from experiments.fabric.race import Race
from experiments.fabric.scheduled import scheduled

MEGABIT = 125_000  # bytes per second
TCP = 1514 / 1448  # bytes on the wire for a byte

Cost = Callable[[float], float]  # of a link's rate, in bytes per second
CLOSE = 0.15  # how far a time in the simulator may be from the testbed's


class Recorded(Conditions):
    """Links and computations as they were.

    Args:
      env, cluster, seed: as in `Conditions`.
      record: what `benchmarks/testbed/fabric.py --json` wrote of a way of training.
      cost: how many bytes a link of a rate carries for a byte of the model.
    """

    def __init__(self, env: simpy.Environment, cluster: Cluster, seed: int, record: dict[str, Any], cost: Cost) -> None:
        self._cost = cost
        self._rates = [(line["at"] - record["began"], line["rates"]) for line in record["rates"]]
        self._computing = record["computing"]
        super().__init__(env, cluster, seed)
        first = [rates for at, rates in self._rates if at <= 0]
        if first:
            self._apply(first[-1])

    def compute_seconds(self, worker: int, steps: int = 1) -> float:
        """One of the worker's times for an update on the testbed, whatever its steps."""
        return float(self._steps[worker].choice(self._computing[worker]))

    def _apply(self, rates: dict[str, tuple[int, int]]) -> None:
        both = ((2 * i + way, max(1, rates[f"worker-{i}"][way])) for i in range(len(rates)) for way in (0, 1))
        self._set_rates([(link, round(rate / self._cost(rate))) for link, rate in both])

    def _change(self):
        for at, rates in self._rates:
            if at > 0:
                yield self.env.timeout(at - self.env.now)
                self._apply(rates)


def way_of(name: str, record: dict[str, Any], options: dict[str, Any]) -> tuple[Start, int, Cost]:
    """How a way of the benchmark is simulated: itself, its local steps, and what links carry for a byte."""
    local = options["local_steps"] if "local" in name else 1
    if not name.startswith("psum"):
        return scheduled(options["delay_bound"], groups=2, local_steps=local, distributors=0), local, lambda rate: TCP
    rates, costs = costs_of_sum(record, options["workers"])
    return ring(local_steps=local), local, lambda rate: float(np.interp(rate, rates, costs))


def costs_of_sum(record: dict[str, Any], workers: int) -> tuple[np.ndarray, np.ndarray]:
    """Rates of the slowest links, in bytes per second, and how many times its bytes a psum then takes."""
    rates, seconds = np.transpose(record["sum_seconds"])
    return rates, seconds * rates / (2 * (workers - 1) / workers * BYTES)


def foretell(name: str, record: dict[str, Any], options: dict[str, Any], seed: int) -> tuple[list[list[float]], float]:
    """Simulates a way of training once.

    Returns:
      The seconds and accuracies, and how many updates were used a second, all from the first commit on.
    """
    start, local, cost = way_of(name, record, options)
    workers, rate = options["workers"], options["rate"] * MEGABIT
    cluster = Cluster(
        hosts=workers,
        workers=workers,
        size=BYTES,
        rate=rate,
        server_rate=round(rate / cost(rate)),
        change_seconds=math.inf,
    )
    learner = ExampleTask(workers, options["seed"], options["batch_size"], options["learning_rate"])
    every = workers * local if name.startswith("psum") else local * 2
    conditions = functools.partial(Recorded, record=record, cost=cost)
    outcome = Race(name, cluster, seed, learner, 10**9, every, conditions).run(start, record["seconds"])
    first = outcome.first_commit
    return [[t - first, score] for t, _, score in outcome.scores], outcome.gradients / local / (outcome.seconds - first)


def reached(curve: list[list[float]], target: float) -> float:
    """The first second with the accuracy. Infinite if never."""
    return next((t for t, accuracy in curve if accuracy >= target), math.inf)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--targets", default="0.8,0.85,0.88,0.9")
    parser.add_argument("--seeds", type=int, default=3, help="how often each way is simulated, with other draws")
    arguments = parser.parse_args()
    targets = [float(target) for target in arguments.targets.split(",")]
    console = Console(width=170)
    ratios = []
    for file in arguments.files:
        whole = json.loads(file.read_text())
        options = whole["options"]
        title = f"{file.name}: testbed / simulator (ratio), seconds to an accuracy"
        table = Table("way", "compute", "updates a second", *(f"{100 * t:g} %" for t in targets), title=title)
        for name, record in whole["ways"].items():
            runs = [foretell(name, record, options, seed) for seed in range(arguments.seeds)]
            cells = [_beside(record["updates"] / record["seconds"], statistics.mean(speed for _, speed in runs))]
            for target in targets:
                foretold = statistics.mean(reached(curve, target) for curve, _ in runs)
                measured = reached(record["curve"], target)
                cells += [_beside(measured, foretold)]
                if math.isfinite(measured) or math.isfinite(foretold):
                    ratios.append(foretold / measured if math.isfinite(measured) else math.inf)
            mean = float(np.mean([s for one in record["computing"] for s in one]))
            table.add_row(name, f"{1e3 * mean:.0f} ms", *cells)
            if record["sum_seconds"]:
                costs = zip(*costs_of_sum(record, options["workers"]), strict=True)
                by_rate = ", ".join(f"{cost:.2f} at {rate / MEGABIT:.1f}" for rate, cost in costs)
                console.print(
                    f"{name}: a psum takes so many times its bytes with slowest links of so many Mbit/s: {by_rate}"
                )
        console.print(table)
    within = sum(abs(ratio - 1) <= CLOSE for ratio in ratios)
    console.print(f"{within} of {len(ratios)} times to an accuracy are foretold within {100 * CLOSE:g} %")


def _beside(measured: float, foretold: float) -> str:
    if not (math.isfinite(measured) and math.isfinite(foretold)):
        return " / ".join("never" if math.isinf(x) else f"{x:.1f}" for x in (measured, foretold))
    return f"{measured:.1f} / {foretold:.1f} ({foretold / measured:.2f})"


if __name__ == "__main__":
    main()
