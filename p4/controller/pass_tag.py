"""Resets the epoch and fingerprint of the pass that each version holds (p4/tofino/pass_tag.p4)."""

from __future__ import annotations

from jaxina.controller.pool import Job
from jaxina.controller.tables import Entry, Tables

_REGISTER = "Ingress.pass_tag.tags"
# The epochs that stand for no pass, for even and odd versions: an even version never holds an odd epoch, nor an odd
# version an even one.
_NONE = (0xFFFFFFFF, 0)


class PassTag:
    def __init__(self, tables: Tables):
        self._tables = tables

    def clear(self, job: Job) -> None:
        self._tables.modify(
            [
                Entry(
                    f"pipe.{_REGISTER}",
                    {"$REGISTER_INDEX": job.version_index(slot, version)},
                    {f"{_REGISTER}.epoch": epoch, f"{_REGISTER}.fingerprint": 0},
                )
                for slot in range(job.slots)
                for version, epoch in enumerate(_NONE)
            ]
        )
