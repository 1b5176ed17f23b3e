"""Says how many packets of a job the chip has combined or sent on (p4/tofino/atp_verdict.p4), by the software switch's
names."""

from __future__ import annotations

import enum

from jaxina.controller.atp_pool import CombinedJob
from jaxina.controller.statistics import BYTES, REJECTED, Reason, Statistics
from jaxina.controller.tables import Tables


class Became(enum.IntEnum):
    """What became of a packet, where p4/tofino/atp_types.p4 has its own names."""

    CLAIMED = 0
    JOINED = 1
    COMBINED = 2
    REPEATED = 3
    ABSORBED = 9
    COLLIDED = 10
    PASSED_ON = 11
    REPLY = 12


_SHARED = (
    Reason.BAD_LENGTH,
    Reason.UNKNOWN_JOB,
    Reason.WRONG_SECRET,
    Reason.BAD_WORKER,
    Reason.BAD_SLOT,
    Reason.UNHEARD,
)
_REJECTED = {reason: REJECTED[reason] for reason in _SHARED} | {Reason.FOREIGN: "foreign"}


class AtpStatistics:
    def __init__(self, tables: Tables):
        self._statistics = Statistics(tables)

    def clear(self, job: CombinedJob) -> None:
        self._statistics.clear(job)

    def of_job(self, job: CombinedJob) -> dict[str, int | dict[str, int]]:
        packets = self._statistics.packets_of(job.index)
        return {
            "claims": packets[Became.CLAIMED],
            "joins": packets[Became.JOINED] + packets[Became.COMBINED],
            "combined": packets[Became.COMBINED],
            "absorbed": packets[Became.ABSORBED] + packets[Became.REPEATED],
            "collisions": packets[Became.COLLIDED],
            "passed_on": packets[Became.PASSED_ON],
            "replies": packets[Became.REPLY],
            "bytes_received": self._statistics.received_of(job.index)[BYTES],
            "rejected": _rejected(packets),
        }

    def of_no_job(self) -> dict[str, int]:
        return _rejected(self._statistics.packets_of(0))


def _rejected(packets: list[int]) -> dict[str, int]:
    return {name: packets[reason] for reason, name in _REJECTED.items() if packets[reason]}
