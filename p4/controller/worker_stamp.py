"""The latest even and odd pass that each worker has contributed to, by slot:
p4/tofino/worker_stamp.p4."""

from __future__ import annotations

from jaxina.controller.pool import Job
from jaxina.controller.tables import Entry, Tables

_REGISTER = "Ingress.worker_stamp.stamps"
_FIELDS = (f"{_REGISTER}.even", f"{_REGISTER}.odd")
_NONE = (0xFFFFFFFF, 0)  # an even pass is never the one, nor an odd pass the other


class WorkerStamp:
    def __init__(self, tables: Tables):
        self._tables = tables

    def clear(self, job: Job) -> None:
        self._tables.modify(_entries(job))

    def missing(self, job: Job, turns: list[int]) -> list[int]:
        """Workers that a slot waits for, given the pass that each slot sums: who has not
        contributed to a pass that
        another one has."""
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
