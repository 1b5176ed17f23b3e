"""Reads how many packets came for each job, and what became of them (p4/tofino/statistics.p4)."""

from __future__ import annotations

import enum
from typing import Protocol

from jaxina.controller.pool import Job
from jaxina.controller.tables import Entry, Tables

_DECIDED = "pipe.Ingress.statistics.packets"
_RECEIVED = "pipe.Ingress.statistics.received"
PACKETS, BYTES = "$COUNTER_SPEC_PKTS", "$COUNTER_SPEC_BYTES"


class Reason(enum.IntEnum):
    """What became of a packet, with the numbers of p4/tofino/types.p4. atp.p4 uses some of them in another sense
    (atp_statistics.py)."""

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
    FOREIGN = 15  # in atp.p4


# The reasons of packets that changed nothing, by the software switch's names where it has them.
REJECTED = {
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


class Counted(Protocol):
    """A job, as far as it matters for counters."""

    @property
    def index(self) -> int: ...


class Statistics:
    def __init__(self, tables: Tables):
        self._tables = tables

    def clear(self, job: Counted) -> None:
        self._tables.modify([_received(job.index), *_decided(job.index)])

    def of_job(self, job: Job) -> dict[str, int | dict[str, int]]:
        received = self.received_of(job.index)
        packets = self.packets_of(job.index)
        undecided = received[PACKETS] - sum(packets)
        # So many may be on their way to a later pipe, besides repeated ones.
        lost = undecided if undecided > job.workers * job.slots else 0
        return {
            "updates": packets[Reason.ADDED] + packets[Reason.COMPLETED],
            "results": packets[Reason.COMPLETED],
            "duplicates": packets[Reason.RESENT] + packets[Reason.PENDING],
            "packets_sent": job.workers * packets[Reason.COMPLETED] + packets[Reason.RESENT],
            "bytes_received": received[BYTES],
            "lost_inside": lost,
            "rejected": _rejected(packets),
        }

    def of_no_job(self) -> dict[str, int]:
        return _rejected(self.packets_of(0))

    def received_of(self, index: int) -> dict[str, int]:
        """Returns the packets and bytes of updates that came for a job, by BfRt's names."""
        (received,) = self._tables.read([_received(index)])
        return received

    def packets_of(self, index: int) -> list[int]:
        """Returns the packets of a job by reason."""
        return [fields[PACKETS] for fields in self._tables.read(_decided(index))]


def _received(index: int) -> Entry:
    return Entry(_RECEIVED, {"$COUNTER_INDEX": index}, {PACKETS: 0, BYTES: 0})


def _decided(index: int) -> list[Entry]:
    data = {PACKETS: 0, BYTES: 0}
    return [Entry(_DECIDED, {"$COUNTER_INDEX": index << 4 | reason}, data) for reason in Reason]


def _rejected(packets: list[int]) -> dict[str, int]:
    return {name: packets[reason] for reason, name in REJECTED.items() if packets[reason]}
