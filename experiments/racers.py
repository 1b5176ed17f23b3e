"""Which recorded runs are compared by the time that they take to a target."""

from __future__ import annotations

from experiments.grid import DEFAULT, MOMENTUM, TRANSFORMERS, Grid
from experiments.recorded import Record, grouped, newest

WORKERS = 4

OTHER_MOMENTUM = ("dgc", "dgc:momentum=0.0")
"""Of the study of momentum: DGC of 1 %, and Top-1 % with error feedback under an optimizer without momentum."""


def records() -> list[Record]:
    """Returns the runs of the grid and of transformers, and those of OTHER_MOMENTUM, all with WORKERS.

    Of a workload's revisions, the newest one that has runs counts. Of a study that still runs, the compressors count
    that have all seeds: others would be compared by other seeds.
    """
    momentum = [run for run in _complete(Grid.read(MOMENTUM)) if run["setting"]["compressor"] in OTHER_MOMENTUM]
    found = [*_complete(Grid.read(DEFAULT)), *_complete(Grid.read(TRANSFORMERS)), *momentum]
    return newest([run for run in found if run["setting"]["workers"] == WORKERS])


def _complete(study: Grid) -> list[Record]:
    by_case = grouped(study.recorded()).values()
    return [run for by_compressor in by_case for runs in study.complete(by_compressor).values() for run in runs]
