"""Resets and reads the latest even and odd pass of each worker in each slot (p4/tofino/worker_stamp.p4)."""

from __future__ import annotations

from jaxina.controller.pool import Job
from jaxina.controller.tables import Entry, Tables

_REGISTER = "Ingress.worker_stamp.stamps"
_FIELDS = (f"{_REGISTER}.even", f"{_REGISTER}.odd")
_NONE = (0xFFFFFFFF, 0)  # the stamps of no pass: an even epoch is never the first, an odd one never the second


class WorkerStamp:
    def __init__(self, tables: Tables):
        self._tables = tables

    def clear(self, job: Job) -> None:
        self._tables.modify(_entries(job))

    def missing(self, job: Job, turns: list[int]) -> list[int]:
        """Returns the workers that some slot waits for: those that have not contributed to a pass that another worker
        has contributed to.

        Args:
          job: the job's part of the chip.
          turns: the epoch that each slot sums now.
        """
        stamps = iter(self._tables.read(_entries(job)))
        awaited = set()
        for turn in turns:
            here = [next(stamps)[_FIELDS[turn % 2]] == turn for _ in range(job.workers)]
            if any(here):
                awaited |= {worker for worker, contributed in enumerate(here) if not contributed}
        return sorted(awaited)


def _entries(job: Job) -> list[Entry]:
    data = dict(zip(_FIELDS, _NONE, strict=True))
    return [
        Entry(f"pipe.{_REGISTER}", {"$REGISTER_INDEX": job.stamp_index(slot, worker)}, data)
        for slot in range(job.slots)
        for worker in range(job.workers)
    ]
