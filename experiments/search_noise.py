"""How many runs does a search for a learning rate need? Asks the recorded searches: python -m experiments.search_noise

For each search that is over, it lets every choice of 1, 2, ... of the runs of each multiple pick a multiple by their
mean. What that costs lies between two numbers:

* *at least*: how much worse the picked multiple is than the best one by the mean of all runs. The runs that picked are
  among them, and flatter what they picked.
* *at most*: the same by the mean of the runs that did not pick. Their best multiple is partly luck, too.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from experiments import rates, records
from experiments.grid import CONFIGS, Grid

Scores = Mapping[float, np.ndarray]
"""multiple -> a score for each run, in margins of the workload; higher is better, minus infinity if it diverged."""


def searches() -> Iterator[Scores]:
    """Yields the scores of all searches that are over and have the most runs for each multiple, each search once."""
    found = records.by_id(rates.FILE)
    studies = [Grid.read(file) for file in sorted(CONFIGS.glob("*.toml"))]
    most = max(study.rates.seeds for study in studies)
    seen = set()
    for study in studies:
        for planned in study.entries():
            search = study.rates
            # The noise of a search does not depend on whether its workload or compressor has changed since.
            older = (
                dataclasses.replace(planned, revision=workload, compressor_revision=compressor)
                for workload in range(planned.revision, 0, -1)
                for compressor in range(planned.compressor_revision, 0, -1)
            )
            entry = next((one for one in older if not search.missing(one, found)), planned)
            if entry.id in seen or search.seeds < most or len(search.scales) == 1 or search.missing(entry, found):
                continue
            seen.add(entry.id)
            yield {
                scale: np.array([_score(found[run.id]["outcome"], study.margins[entry.workload]) for run in runs])
                for scale, runs in search.settings(entry, found).items()
            }


def picked(scores: Scores, runs: Sequence[int]) -> float:
    """Returns the multiple with the best mean of these runs."""
    return max(scores, key=lambda scale: scores[scale][list(runs)].mean())


def lost(scores: Scores, by: Sequence[int], judges: Sequence[int]) -> float:
    """Returns by how many margins the mean of `judges` falls if the runs `by` pick the multiple instead of `judges`."""
    means = {scale: every[list(judges)].mean() for scale, every in scores.items()}
    best = max(means.values())
    return 0.0 if math.isinf(best) else best - means[picked(scores, by)]


@dataclasses.dataclass(frozen=True)
class Noise:
    """What a number of runs for each multiple costs, over all searches and all choices of the runs.

    Attributes:
      others: the share of choices that pick another multiple than all runs.
      at_least, at_most: the losses in margins, one for each search and choice. The module's docstring tells them apart.
    """

    others: float
    at_least: np.ndarray
    at_most: np.ndarray


def noise_of(known: Sequence[Scores], runs: int) -> Noise:
    """Returns what picking by so many runs costs; fewer than the searches have."""
    others, at_least, at_most = [], [], []
    for scores in known:
        every = range(next(iter(scores.values())).size)
        for chosen in itertools.combinations(every, runs):
            rest = [run for run in every if run not in chosen]
            others.append(picked(scores, chosen) != picked(scores, every))
            at_least.append(lost(scores, chosen, every))
            at_most.append(lost(scores, chosen, rest))
    return Noise(float(np.mean(others)), np.array(at_least), np.array(at_most))


def _score(outcome: dict, margin: float) -> float:
    score = outcome["scores"][-1][1]
    if score is None:
        return -math.inf
    return (score if outcome["higher_is_better"] else -score) / margin


def main() -> None:
    known = list(searches())
    if not known:
        sys.exit(f"no search is over in {rates.FILE}: python -m experiments.convergence")
    most = max(every.size for scores in known for every in scores.values())
    table = Table(
        "runs for each multiple",
        "pick another",
        "lose a margin or more, at least",
        "at most",
        "lose, 95th percentile, margins, at least",
        "at most",
    )
    for runs in range(1, most):
        noise = noise_of(known, runs)
        both = (noise.at_least, noise.at_most)
        table.add_row(
            str(runs),
            f"{noise.others:.0%}",
            *(f"{np.mean(losses >= 1):.0%}" for losses in both),
            *(f"{np.percentile(losses, 95):.2g}" for losses in both),
        )
    table.caption = f"{len(known)} searches with {most} runs for each multiple, and every choice of the runs"
    Console().print(table)


if __name__ == "__main__":
    main()
