"""Resets and reads the pass that each slot sums now (p4/tofino/slot_turn.p4)."""

from __future__ import annotations

from jaxina.controller.pool import Job
from jaxina.controller.tables import Entry, Tables

_REGISTER = "Ingress.slot_turn.turns"


class SlotTurn:
    def __init__(self, tables: Tables):
        self._tables = tables

    def clear(self, job: Job) -> None:
        self._tables.modify([_entry(job, slot) for slot in range(job.slots)])

    def turns(self, job: Job) -> list[int]:
        """Returns the epoch that each of the job's slots sums now, by slot."""
        found = self._tables.read([_entry(job, slot) for slot in range(job.slots)])
        return [fields[f"{_REGISTER}.turn"] for fields in found]


def _entry(job: Job, slot: int) -> Entry:
    data = {f"{_REGISTER}.turn": 0, f"{_REGISTER}.distance": 0}
    return Entry(f"pipe.{_REGISTER}", {"$REGISTER_INDEX": job.slot_base + slot}, data)
