"""Recorded runs of a study: grouped by case, paired by their seed, and averaged."""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.records import Setting

Record = dict[str, Any]
BASELINE = "none"


class Case(NamedTuple):
    """A workload and how many workers train it. Compressors are compared within a case."""

    workload: str
    workers: int

    def __str__(self) -> str:
        return f"{self.workload}, {self.workers} workers"


Groups = dict[Case, dict[str, list[Record]]]


def grouped(records: Sequence[Record]) -> Groups:
    """Returns case -> compressor -> runs. All are sorted, with the baseline first; runs are sorted by seed."""
    groups: dict[Case, dict[str, list[Record]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for record in sorted(
        records,
        key=lambda r: (
            r["setting"]["compressor"] != BASELINE,
            r["setting"]["workload"],
            r["setting"]["compressor"],
            r["setting"]["seed"],
        ),
    ):
        setting = record["setting"]
        groups[Case(setting["workload"], setting["workers"])][setting["compressor"]].append(record)
    return {case: dict(runs) for case, runs in sorted(groups.items())}


def newest(records: Sequence[Record]) -> list[Record]:
    """Returns the runs of each case's newest revision of the workload, and there of each compressor's newest one.

    Older ones had other data, another model, another metric, or another way to compress.
    """

    def case(setting: Setting) -> tuple:
        return setting.workload, setting.workers

    def compressor(setting: Setting) -> tuple:
        return *case(setting), setting.compressor

    for key, of in ((case, "revision"), (compressor, "compressor_revision")):
        newest_of: dict[tuple, int] = collections.defaultdict(int)
        settings = [Setting(**record["setting"]) for record in records]
        for setting in settings:
            newest_of[key(setting)] = max(newest_of[key(setting)], getattr(setting, of))
        records = [
            record
            for record, setting in zip(records, settings, strict=True)
            if getattr(setting, of) == newest_of[key(setting)]
        ]
    return list(records)


def with_changes(records: Sequence[Record]) -> int:
    """Returns how many runs were made by code with uncommitted changes."""
    return sum(record["provenance"]["uncommitted_changes"] for record in records)


def final_scores(runs: Sequence[Record]) -> list[float]:
    """Returns the final scores of the runs that did not diverge."""
    finals = [run["outcome"]["scores"][-1][1] for run in runs if not run["outcome"]["diverged"]]
    return [score for score in finals if score is not None]


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


def loss_differences(runs: Sequence[Record], baseline: Sequence[Record], points: int) -> np.ndarray:
    """Returns the training losses over the baseline's with that seed, minus 1.

    Returns:
      [seeds, points], as `losses`. Pairs of which a run diverged are left out.
    """
    kept = [pair for pair in pairs(runs, baseline) if not any(run["outcome"]["diverged"] for run in pair)]
    return np.array([losses(ours, points)[1] / losses(theirs, points)[1] - 1 for ours, theirs in kept])


def losses(run: Record, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the training loss of a run that did not diverge, averaged over so many parts of the run, and fewer if it
    has fewer recorded windows.

    Returns:
      The middle steps of the parts and the mean losses in them: two arrays [points].
    """
    windows = np.array(run["outcome"]["losses"], float)
    parts = np.array_split(np.arange(len(windows)), min(points, len(windows)))
    steps = [run["outcome"]["window"] * (part.mean() + 0.5) for part in parts]
    return np.array(steps), np.array([windows[part].mean() for part in parts])


def largest_loss_difference(runs: Sequence[Record], baseline: Sequence[Record]) -> float:
    """Returns the largest relative difference of the training loss from the baseline's with that seed, of any recorded
    window of steps."""
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
