"""Recorded runs of a study: grouped, paired by their seed, and averaged."""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments import statistics

Record = dict[str, Any]
Groups = dict[str, dict[str, list[Record]]]
BASELINE = "none"


def grouped(records: Sequence[Record]) -> Groups:
    """Returns workload -> compressor -> runs. Names are sorted, with the baseline first; runs are sorted by seed."""
    groups: dict[str, dict[str, list[Record]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for record in sorted(
        records,
        key=lambda r: (
            r["setting"]["compressor"] != BASELINE,
            r["setting"]["workload"],
            r["setting"]["compressor"],
            r["setting"]["seed"],
        ),
    ):
        groups[record["setting"]["workload"]][record["setting"]["compressor"]].append(record)
    return {workload: dict(runs) for workload, runs in sorted(groups.items())}


def final_scores(runs: Sequence[Record]) -> list[float]:
    """Returns the final scores of the runs that did not diverge."""
    finals = [run["outcome"]["scores"][-1][1] for run in runs if not run["outcome"]["diverged"]]
    return [score for score in finals if score is not None]


def margin_of(baseline: Sequence[Record]) -> float:
    """Returns the difference from the baseline's metric that does not matter: `statistics.MARGIN` of its mean."""
    return statistics.MARGIN * abs(float(np.mean(final_scores(baseline))))


def pairs(runs: Sequence[Record], baseline: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Returns each run with the baseline's run of that seed, if there is one: same data, same initial values."""
    of_seed = {run["setting"]["seed"]: run for run in baseline}
    return [(run, of_seed[run["setting"]["seed"]]) for run in runs if run["setting"]["seed"] in of_seed]


def differences(runs: Sequence[Record], baseline: Sequence[Record]) -> list[float]:
    """Returns the final scores minus the baseline's, seed by seed. Pairs of which a run diverged are left out."""
    found = ((final_scores([ours]), final_scores([theirs])) for ours, theirs in pairs(runs, baseline))
    return [ours[0] - theirs[0] for ours, theirs in found if ours and theirs]


def differences_over_steps(runs: Sequence[Record], baseline: Sequence[Record]) -> tuple[list[int], list[list[float]]]:
    """Returns the steps of evaluations, and the scores minus the baseline's there, seed by seed."""
    by_step: dict[int, list[float]] = collections.defaultdict(list)
    for ours, theirs in pairs(runs, baseline):
        scores = dict(theirs["outcome"]["scores"])
        for step, score in ours["outcome"]["scores"]:
            if score is not None and scores.get(step) is not None:
                by_step[step].append(score - scores[step])
    steps = sorted(by_step)
    return steps, [by_step[step] for step in steps]


def loss_differences(runs: Sequence[Record], baseline: Sequence[Record], window: int) -> np.ndarray:
    """Returns the mean training loss of each window of steps over the baseline's with that seed, minus 1.

    Returns:
      [seeds, windows]. Pairs of which a run diverged are left out.
    """
    kept = [pair for pair in pairs(runs, baseline) if not any(run["outcome"]["diverged"] for run in pair)]
    return np.array([windows(ours, window) / windows(theirs, window) - 1 for ours, theirs in kept])


def windows(run: Record, window: int) -> np.ndarray:
    """Returns the means of the training loss over windows of steps: [windows]."""
    losses = np.array(run["outcome"]["losses"])
    return losses[: len(losses) // window * window].reshape(-1, window).mean(axis=1)


def largest_loss_difference(runs: Sequence[Record], baseline: Sequence[Record]) -> float:
    """Returns the largest relative difference, at any step, of the training loss from the baseline's with that seed."""
    of_seed = {run["setting"]["seed"]: run["outcome"]["losses"] for run in baseline}
    differences = [0.0]
    for run in runs:
        theirs = of_seed.get(run["setting"]["seed"], [])
        differences += [
            math.inf if ours is None else abs(ours / loss - 1)
            for ours, loss in zip(run["outcome"]["losses"], theirs, strict=False)
            if loss
        ]
    return max(differences)


def curve(runs: Sequence[Record]) -> tuple[np.ndarray, ...]:
    """Returns the steps of evaluations, and the mean, the smallest and the largest score of the seeds there.

    Runs that diverged count up to the step at which they diverged.
    """
    by_step: dict[int, list[float]] = collections.defaultdict(list)
    for run in runs:
        for step, score in run["outcome"]["scores"]:
            if score is not None:
                by_step[step].append(score)
    steps = sorted(by_step)
    return np.array(steps), *(np.array([of(by_step[step]) for step in steps]) for of in (np.mean, np.min, np.max))
