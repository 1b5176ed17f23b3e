"""Which recorded runs are compared by the time that they take to a target."""

from __future__ import annotations

from experiments.grid import DEFAULT, MOMENTUM, TRANSFORMERS, Grid
from experiments.recorded import Record, newest

WORKERS = 4

OTHER_MOMENTUM = ("dgc", "dgc:momentum=0.0")
"""Of the study of momentum: DGC of 1 %, and Top-1 % with error feedback under an optimizer without momentum."""


def records() -> list[Record]:
    """Returns the runs of the grid and of transformers, and those of OTHER_MOMENTUM, all with WORKERS.

    Of a workload's revisions, the newest one that has runs counts.
    """
    momentum = [run for run in Grid.read(MOMENTUM).recorded() if run["setting"]["compressor"] in OTHER_MOMENTUM]
    found = [*Grid.read(DEFAULT).recorded(), *Grid.read(TRANSFORMERS).recorded(), *momentum]
    return newest([run for run in found if run["setting"]["workers"] == WORKERS])
