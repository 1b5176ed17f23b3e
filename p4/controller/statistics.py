"""Reads how many packets came, by job and by what became of them (p4/tofino/statistics.p4)."""

from __future__ import annotations

import enum

from jaxina.controller.pool import Job
from jaxina.controller.tables import Entry, Tables

_TABLE = "pipe.Ingress.statistics.packets"
_PACKETS, _BYTES = "$COUNTER_SPEC_PKTS", "$COUNTER_SPEC_BYTES"


class Reason(enum.IntEnum):
    """What became of a packet, with the numbers of p4/tofino/types.p4."""

    ADDED = 0
    COMPLETED = 1
    RESENT = 2
    PENDING = 3
    BAD_LENGTH = 4
    UNKNOWN_JOB = 5
    WRONG_SECRET = 6
    BAD_WORKER = 7
    BAD_SLOT = 8
    STALE = 9
    AHEAD = 10
    MISMATCH = 11
    NO_ACCESS = 12
    UNHEARD = 13
    HANDED_OVER = 14
    ENDED = 15


# The reasons of packets that changed nothing, by the software switch's names where it has them.
_REJECTED = {
    Reason.BAD_LENGTH: "bad_length",
    Reason.UNKNOWN_JOB: "unknown_job",
    Reason.WRONG_SECRET: "wrong_secret",
    Reason.BAD_WORKER: "bad_worker",
    Reason.BAD_SLOT: "bad_slot",
    Reason.STALE: "stale",
    Reason.AHEAD: "ahead",
    Reason.MISMATCH: "mismatch",
    Reason.NO_ACCESS: "rdma_no_access",
    Reason.UNHEARD: "unheard",
    Reason.ENDED: "aborted",
}


class Statistics:
    def __init__(self, tables: Tables):
        self._tables = tables

    def clear(self, job: Job) -> None:
        self._tables.modify(_entries(job.index))

    def of_job(self, job: Job) -> dict[str, int | dict[str, int]]:
        packets, received = self._read(job.index)
        return {
            "updates": packets[Reason.ADDED] + packets[Reason.COMPLETED],
            "results": packets[Reason.COMPLETED],
            "duplicates": packets[Reason.RESENT] + packets[Reason.PENDING],
            "packets_sent": job.workers * packets[Reason.COMPLETED] + packets[Reason.RESENT],
            "bytes_received": received,
            "rejected": _rejected(packets),
        }

    def of_no_job(self) -> dict[str, int]:
        return _rejected(self._read(0)[0])

    def _read(self, index: int) -> tuple[list[int], int]:
        """Returns the packets by reason, and the bytes of all but those handed over, which the pool's pipe counts
        again."""
        found = self._tables.read(_entries(index))
        bytes_received = [fields[_BYTES] for fields in found]
        bytes_received[Reason.HANDED_OVER] = 0
        return [fields[_PACKETS] for fields in found], sum(bytes_received)


def _entries(index: int) -> list[Entry]:
    data = {_PACKETS: 0, _BYTES: 0}
    return [Entry(_TABLE, {"$COUNTER_INDEX": index << 4 | reason}, data) for reason in Reason]


def _rejected(packets: list[int]) -> dict[str, int]:
    return {name: packets[reason] for reason, name in _REJECTED.items() if packets[reason]}
