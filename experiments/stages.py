"""What needs no grid: data sets, models to build on, analyses and measurements. Whether each is made is read out of
what it made.
"""

from __future__ import annotations

import dataclasses
import functools
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from experiments import (
    compression_cost,
    documents,
    durations,
    effect_of_f,
    grid,
    measured_time,
    narrow_words,
    pretrained,
    records,
    unbiased_rounding,
    workloads,
)
from experiments.data import packages
from experiments.fabric import lda, study
from experiments.recorded import BASELINE


class State(NamedTuple):
    """What there is of an analysis.

    Attributes:
      left: what is missing, in words; empty if nothing is.
      seconds: how long that will take; None if nobody knows.
      made: when and for how long it was made, in words; empty if it is not, or if nothing says so.
    """

    left: str
    seconds: float | None
    made: str = ""


class Analysis(NamedTuple):
    """What is made once.

    Attributes:
      command: the arguments of ``python -m experiments.``.
      state: returns the state for a size of models, "small" or "large".
      repeatable: whether the command makes it again although it is made.
    """

    command: str
    state: Callable[[str], State]
    repeatable: bool = False


class Measurement(Protocol):
    """A module whose result is one document."""

    FILE: Path

    def settings(self) -> dict[str, Any]: ...


def duration(seconds: float) -> str:
    """Returns a time for people, such as "3 h 20 min"."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def of_document(module: Measurement, size: str) -> State:
    """Returns the state of a measurement. It does not depend on the size of models."""
    document = documents.read(module.FILE)
    if document is None:
        return State("not made", None)
    seconds = document.get("seconds")
    if not documents.is_current(document, module.settings()):
        return State("out of date", seconds)
    return State("", seconds, _made([document["finished"]] if "finished" in document else [], seconds))


def of_races(file: Path, settings: Sequence[records.Identified]) -> State:
    """Returns the state of races, which are recorded one by one in the file."""
    found = records.by_id(file)
    missing = [setting for setting in settings if setting.id not in found]
    ours = [found[setting.id] for setting in settings if setting.id in found]
    # Older races do not say it. Their "seconds" are virtual ones.
    taken = [race["outcome"]["wall_seconds"] for race in ours if "wall_seconds" in race["outcome"]]
    if missing:
        return State(f"{len(missing)} races", len(missing) * statistics.mean(taken) if taken else None)
    seconds = sum(taken) if len(taken) == len(ours) else None
    return State("", seconds, _made([race["finished"] for race in ours], seconds))


def _made(ends: Sequence[str], seconds: float | None) -> str:
    if not ends:
        return "made; the day is not recorded"  # in documents from before 29 November 2026
    return f"made on {max(ends)[:10]}" + ("; time not recorded" if seconds is None else f" in {duration(seconds)}")


def of_packages(size: str) -> State:
    missing = [package for package in packages.ALL if not package.archive.exists()]
    return State(f"{len(missing)} downloads" if missing else "", None)


def of_base(size: str) -> State:
    """Returns the state of the model that `lora` adapts. To train it takes as long as a run of `decoder` in float32."""
    if pretrained.file_of(workloads.kind("decoder"), size).exists():
        return State("", None)
    whole = dataclasses.replace(grid.Grid.read(grid.CONFIGS / "transformers.toml"), size=size)
    part = whole.selected(["decoder"], [BASELINE])
    (run,), known = part.entries(), durations.recorded(part)
    return State("not made", known.seconds(run) if known.knows(durations.place_of(run)) else None)


def _measured(module: Measurement) -> Analysis:
    return Analysis(module.FILE.stem, functools.partial(of_document, module), repeatable=True)


_RACES = "--compute C2 --gradients 6000 --score-every 240 --rates 0.1,0.3"

# Each takes minutes, the races hours.
ANALYSES: Mapping[str, Analysis] = {
    "data sets": Analysis("data.packages", of_packages),
    "base of lora": Analysis("pretrained --size {size}", of_base),
    "bias of rounding": _measured(unbiased_rounding),
    "effect of f": _measured(effect_of_f),
    "sums of narrow words": _measured(narrow_words),
    "cost of compression": _measured(compression_cost),
    "races over unequal links": Analysis(
        f"fabric.study train {_RACES}",
        lambda size: of_races(study.FILE, study.settings(study.parser().parse_args(["train", *_RACES.split()]))),
    ),
    "topics over unequal links": Analysis(
        "fabric.lda run --seeds 3", lambda size: of_races(lda.FILE, lda.settings(lda.WAYS, 3, lda.ITERATIONS))
    ),
}
# What comes last, because it needs recorded runs of small models, root's rights and a machine that does nothing else.
MEASUREMENTS: Mapping[str, Analysis] = {"time to accuracy over real links": _measured(measured_time)}


def after_studies(size: str) -> Mapping[str, Analysis]:
    """Returns what is made after the studies, for models of this size."""
    return MEASUREMENTS if size == "small" else {}


def repeatable(size: str) -> list[str]:
    """Returns the commands that make their result again although it is made."""
    found = [*ANALYSES.values(), *after_studies(size).values()]
    return [analysis.command for analysis in found if analysis.repeatable]
