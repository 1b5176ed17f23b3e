"""Estimates how long runs take, from those that are recorded.

A run takes its steps' time, and some time around them to compile and to score. Where a compressor was never run on a
workload, the recorded ratios of its step to float32's on other workloads stand in. Where a workload was never run, a
few steps of float32 are timed (`probe`) and recorded in results/probes.jsonl.
"""

from __future__ import annotations

import collections
import dataclasses
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from experiments import rates, records
from experiments.grid import Grid
from experiments.recorded import BASELINE
from experiments.records import RESULTS, Setting
from experiments.workloads import VALIDATION
from jaxina import compressors

PROBES = RESULTS / "probes.jsonl"
PROBE_STEPS = 8
_UNKNOWN_RATIO = 1.5  # of a compressor's step to float32's, where nothing is recorded
_UNKNOWN_OVERHEAD = 10.0  # seconds

Place = tuple[str, str, int]


def place_of(setting: Mapping[str, Any] | Setting) -> Place:
    """Returns what a run's time depends on besides its compressor: the workload, its size and the workers."""
    values = dataclasses.asdict(setting) if isinstance(setting, Setting) else setting
    return values["workload"], values["size"], values["workers"]


class Durations:
    """What recorded runs took."""

    def __init__(self, found: Iterable[dict[str, Any]]) -> None:
        steps: dict[tuple[Place, str], list[float]] = collections.defaultdict(list)
        overheads: dict[Place, list[float]] = collections.defaultdict(list)
        for record in found:
            setting, outcome = record["setting"], record["outcome"]
            place = place_of(setting)
            steps[place, setting["compressor"]].append(outcome["step_seconds"])
            overheads[place].append(max(0.0, outcome["seconds"] - setting["steps"] * outcome["step_seconds"]))
        self._steps = {key: statistics.median(values) for key, values in steps.items()}
        self._overheads = {place: statistics.median(values) for place, values in overheads.items()}
        self._ratios: dict[str, list[float]] = collections.defaultdict(list)
        for (place, compressor), seconds in self._steps.items():
            if (place, BASELINE) in self._steps:
                self._ratios[compressor].append(seconds / self._steps[place, BASELINE])

    def knows(self, place: Place) -> bool:
        return (place, BASELINE) in self._steps

    def seconds(self, run: Setting) -> float:
        """Returns the expected time of a run, whose place must be known."""
        place = place_of(run)
        step = self._steps.get((place, run.compressor))
        if step is None:
            ratios = self._ratios.get(run.compressor)
            step = self._steps[place, BASELINE] * (statistics.median(ratios) if ratios else _UNKNOWN_RATIO)
        return run.steps * step + self._overheads.get(place, _UNKNOWN_OVERHEAD)


def recorded(study: Grid) -> Durations:
    """Returns the durations of a study's runs, of all searches and of all probes."""
    return Durations([*records.read(PROBES), *records.read(rates.FILE), *records.read(study.file)])


def left(study: Grid) -> list[Setting]:
    """Returns the runs that a study lacks. A search that must go on beyond its scales has more than these."""
    tuned, found = records.by_id(rates.FILE), records.by_id(study.file)
    missing = []
    for entry in study.entries():
        searches = study.rates.missing(entry, tuned)
        missing += searches
        # Until the search is over, the rate of the runs is not known. Their number and their time do not depend on it.
        scale = 1.0 if searches else study.rates.best(entry, tuned)
        missing += [run for run in study.runs(entry, scale) if searches or run.id not in found]
    return missing


def probe_of(entry: Setting) -> Setting:
    """Returns the run that times a workload: a few steps of float32."""
    return dataclasses.replace(
        entry,
        compressor=BASELINE,
        compressor_revision=compressors.get(BASELINE).revision,
        seed=rates.FIRST_SEED,
        steps=PROBE_STEPS,
        learning_rate_scale=1.0,
        collective="xla",
        split=VALIDATION,
    )
