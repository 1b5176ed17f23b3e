"""Which jobs have parts of the chip: indices, slots and entries of tables."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from jaxina.controller.journal import Writing
from jaxina.errors import JobRejectedError


class Part(Writing, Protocol):
    """A job's part of the chip."""

    id: int
    index: int


P = TypeVar("P", bound=Part)


class Parts(Generic[P]):
    """The jobs that have parts of the chip.

    Attributes:
      jobs: those that the chip serves.
      leaving: those that were removed, but the chip may still have entries of them. Nobody else gets their parts.
    """

    def __init__(self) -> None:
        self.jobs: dict[int, P] = {}
        self.leaving: dict[int, P] = {}

    @property
    def taken(self) -> list[P]:
        return [*self.jobs.values(), *self.leaving.values()]

    def of_index(self, index: int) -> P | None:
        """Returns the job that the program knows by this index, if the chip serves it."""
        return next((job for job in self.jobs.values() if job.index == index), None)

    def remove(self, job: int) -> None:
        """Has a job leave. Nothing happens if there is no such job."""
        removed = self.jobs.pop(job, None)
        if removed is not None:
            self.leaving[job] = removed

    def _check_new(self, job: int) -> None:
        if job in self.jobs:
            raise JobRejectedError(f"job {job} exists already")
        if job in self.leaving:
            raise JobRejectedError(f"this switch still has an earlier job {job}{self.leftovers()}")

    def leftovers(self) -> str:
        """Returns what to add to the reason of a refusal."""
        if not self.leaving:
            return ""
        return (
            f"; {len(self.leaving)} jobs have ended, but the chip's driver does not delete their entries: see the "
            "switch's log, and restart `jaxina switch`, which empties the chip"
        )
