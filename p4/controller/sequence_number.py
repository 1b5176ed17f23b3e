"""Sets the next sequence number of each queue pair that the switch writes on (p4/tofino/sequence_number.p4)."""

from __future__ import annotations

from jaxina.controller.pool import Job
from jaxina.controller.tables import Entry, Tables

_REGISTER = "Egress.replies.sequence_number.numbers"


class SequenceNumber:
    def __init__(self, tables: Tables):
        self._tables = tables

    def begin(self, job: Job, worker: int, psn: int) -> None:
        """Makes all queue pairs of a worker begin with `psn`."""
        self._tables.modify(
            [
                Entry(
                    f"pipe.{_REGISTER}",
                    {"$REGISTER_INDEX": job.stamp_index(slot, worker)},
                    {f"{_REGISTER}.f1": psn},
                )
                for slot in range(job.slots)
            ]
        )
