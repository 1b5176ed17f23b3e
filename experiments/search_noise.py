"""How many runs does a search for a learning rate need? Asks the recorded searches: python -m experiments.search_noise

For each search that is over, it takes only the first 1, 2, ... runs of each multiple. It looks whether their mean picks
another multiple than the mean of all runs, and how much worse that one is by the mean of all runs.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Iterator, Mapping

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
            # The noise of a search does not depend on whether its workload was mended since.
            older = (dataclasses.replace(planned, revision=planned.revision - back) for back in range(planned.revision))
            entry = next((one for one in older if not search.missing(one, found)), planned)
            if entry.id in seen or search.seeds < most or len(search.scales) == 1 or search.missing(entry, found):
                continue
            seen.add(entry.id)
            yield {
                scale: np.array([_score(found[run.id]["outcome"], study.margins[entry.workload]) for run in runs])
                for scale, runs in search.settings(entry, found).items()
            }


def picked(scores: Scores, runs: int) -> float:
    """Returns the multiple with the best mean of its first runs."""
    return max(scores, key=lambda scale: scores[scale][:runs].mean())


def lost(scores: Scores, runs: int) -> float:
    """Returns by how many margins the mean of all runs falls if only the first ones pick the multiple."""
    means = {scale: every.mean() for scale, every in scores.items()}
    best = max(means.values())
    return 0.0 if math.isinf(best) else best - means[picked(scores, runs)]


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
        "runs for each multiple", "picks another", "loses a margin or more", "loses, 95th percentile, margins"
    )
    for runs in range(1, most):
        losses = [lost(scores, runs) for scores in known]
        others = sum(picked(scores, runs) != picked(scores, most) for scores in known)
        table.add_row(
            str(runs), str(others), str(sum(loss >= 1 for loss in losses)), f"{np.percentile(losses, 95):.2g}"
        )
    table.caption = f"{len(known)} searches with {most} runs for each multiple"
    Console().print(table)


if __name__ == "__main__":
    main()
