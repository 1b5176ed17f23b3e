"""Compares ways of training over unequal links: time alone, and time to a score with real gradients.

    python -m experiments.fabric.study times                   # gradients per second in all conditions: minutes
    python -m experiments.fabric.study train --compute C2 --gradients 6000 --score-every 240 --rates 0.1,0.3
    python -m experiments.fabric.study table --compute C2 --gradients 6000

Each finished race is a line of `experiments/results/fabric.jsonl`. A race that is there already is not run again.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import statistics
import time

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from experiments.fabric.baselines import Start, asynchronous, ring
from experiments.fabric.conditions import COMPUTE, Cluster
from experiments.fabric.learner import Counter, Learner
from experiments.fabric.race import Race, mean_age
from experiments.fabric.scheduled import scheduled
from experiments.records import RESULTS, Identified, append, by_id, read
from experiments.workloads import get, kind
from jaxina.testbed.schedule import SCHEDULES

FILE = RESULTS / "fabric.jsonl"
SECONDS = 120.0  # of virtual time, in the study of time alone
ROWS = 8  # of a worker's batch

WAYS: dict[str, Start] = {
    "ring": ring(),
    "backup 3": ring(backup=3),
    "local 8": ring(local_steps=8),
    "local 8, backup 3": ring(local_steps=8, backup=3),
    "async": asynchronous(),
    "stale 2": asynchronous(slack=2),
    "fabric 30": scheduled(30),
    "fabric 60": scheduled(60),
    "fabric 30, local 8": scheduled(30, local_steps=8),
    "fabric 60, local 8": scheduled(60, local_steps=8),
}
"""Workers wait for all ("ring"), for all but some ("backup"), for none ("async"), or for the slowest if it is so many
steps behind ("stale"). "local": so many steps on the own copy for one exchange. "fabric": MLfabric-A with this bound on
delays."""


@dataclasses.dataclass(frozen=True)
class Setting(Identified):
    """What identifies a race with real gradients."""

    way: str
    compute: str
    network: str
    workload: str
    learning_rate: float
    seed: int
    gradients: int
    score_every: int
    revision: int  # the workload's


def times(seeds: range) -> None:
    """Prints how many gradients a second each way uses, in all conditions."""
    table = Table("compute", "network", *WAYS, title=f"gradients used per virtual second, {len(seeds)} seeds")
    with Progress() as progress:
        task = progress.add_task("races", total=len(COMPUTE) * len(SCHEDULES) * len(WAYS) * len(seeds))
        for compute in COMPUTE:
            for network in SCHEDULES:
                cells = []
                for way, start in WAYS.items():
                    speeds = []
                    for seed in seeds:
                        race = Race(way, Cluster(compute, network), seed, Counter(), 10**9, 10**9)
                        outcome = race.run(start, SECONDS)
                        speeds.append(outcome.gradients / outcome.seconds)
                        progress.advance(task)
                    cells.append(f"{statistics.mean(speeds):.0f}")
                table.add_row(compute, network, *cells)
    Console(width=200).print(table)


def train(settings: list[Setting]) -> None:
    """Runs the races that are not recorded yet."""
    done = by_id(FILE)
    missing = [s for s in settings if s.id not in done]
    with Progress() as progress:
        task = progress.add_task("races", total=len(missing))
        for setting in missing:
            progress.update(task, description=f"{setting.way}, {setting.compute}, {setting.network}")
            cluster = Cluster(setting.compute, setting.network)
            learner = Learner(get(setting.workload), cluster.workers, ROWS, setting.learning_rate, setting.seed)
            race = Race(setting.way, cluster, setting.seed, learner, setting.gradients, setting.score_every)
            start = time.perf_counter()
            outcome = race.run(WAYS[setting.way], 1e6)
            result = {
                "seconds": outcome.seconds,
                "wall_seconds": round(time.perf_counter() - start, 1),
                "gradients": outcome.gradients,
                "dropped": outcome.dropped,
                "mean_age": mean_age(outcome),
                "scores": [(t, n, score if math.isfinite(score) else None) for t, n, score in outcome.scores],
            }
            append(FILE, setting, result)
            progress.advance(task)


def table(compute: str, network: str, workload: str, gradients: int, targets: list[float]) -> None:
    """Prints when each recorded way reached a score: the mean over seeds, with the learning rate best for it.

    Races with an older revision of the workload do not count.
    """
    shown_of = compute, network, workload, gradients, kind(workload).revision
    found: dict[str, dict[float, list[list[tuple[float, int, float | None]]]]] = {}
    for record in read(FILE):
        setting = record["setting"]
        of = tuple(setting[name] for name in ("compute", "network", "workload", "gradients"))
        if (*of, setting.get("revision", 1)) == shown_of:
            rates = found.setdefault(setting["way"], {})
            rates.setdefault(setting["learning_rate"], []).append(record["outcome"]["scores"])
    shown = Table(
        "way",
        *(f"{target:g} %" for target in targets),
        title=f"{compute}, {network}, {workload}: virtual seconds to a score",
    )
    for way in (way for way in WAYS if way in found):
        cells = []
        for target in targets:
            times = [
                (statistics.mean(reached), rate, len(reached))
                for rate, runs in found[way].items()
                if math.isfinite(sum(reached := [_first(scores, target) for scores in runs]))
            ]
            cells.append("{:.0f} (rate {:g}, seeds: {})".format(*min(times)) if times else "not within the race")
        shown.add_row(way, *cells)
    Console(width=200).print(shown)


def _first(scores: list[tuple[float, int, float | None]], target: float) -> float:
    """The first second with the score."""
    return next((t for t, _, score in scores if score is not None and score >= target), math.inf)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    counted = commands.add_parser("times")
    counted.add_argument("--seeds", type=int, default=3)
    trained = commands.add_parser("train")
    trained.add_argument("--ways", default="; ".join(WAYS), help="separated by semicolons")
    trained.add_argument("--compute", default="C1", choices=list(COMPUTE))
    trained.add_argument("--network", default="N2", choices=list(SCHEDULES))
    trained.add_argument("--workload", default="vgg")
    trained.add_argument("--rates", default="0.1", help="learning rates, separated by commas")
    trained.add_argument("--seeds", type=int, default=1)
    trained.add_argument("--gradients", type=int, default=9000)
    trained.add_argument("--score-every", type=int, default=300)
    shown = commands.add_parser("table")
    shown.add_argument("--compute", default="C2", choices=list(COMPUTE))
    shown.add_argument("--network", default="N2", choices=list(SCHEDULES))
    shown.add_argument("--workload", default="vgg")
    shown.add_argument("--gradients", type=int, default=6000, help="of the races that are shown")
    shown.add_argument("--targets", default="80,90,94", help="scores, separated by commas")
    return parser


def settings(arguments: argparse.Namespace) -> list[Setting]:
    """Returns the races of ``train`` with these arguments."""
    return [
        Setting(
            way.strip(),
            arguments.compute,
            arguments.network,
            arguments.workload,
            float(rate),
            seed,
            arguments.gradients,
            arguments.score_every,
            kind(arguments.workload).revision,
        )
        for seed in range(arguments.seeds)
        for rate in arguments.rates.split(",")
        for way in arguments.ways.split(";")
    ]


def main() -> None:
    arguments = parser().parse_args()
    if arguments.command == "times":
        times(range(arguments.seeds))
        return
    if arguments.command == "table":
        targets = [float(target) for target in arguments.targets.split(",")]
        table(arguments.compute, arguments.network, arguments.workload, arguments.gradients, targets)
        return
    train(settings(arguments))


if __name__ == "__main__":
    main()
