"""Enters whose updates and replies are admitted, and which entries their passes have (p4/tofino/atp_admission.p4).

Entries of one job match no packet of another, so priorities matter only within a job.
"""

from __future__ import annotations

import enum

from jaxina.control.roles import Child
from jaxina.controller.atp_pool import CombinedJob
from jaxina.controller.chip import PORTS_OF_A_PIPE, Chip
from jaxina.controller.journal import OF_GROUP, Journal
from jaxina.controller.pool import Station
from jaxina.controller.statistics import Reason
from jaxina.controller.tables import Entry, Match, Range, Tables, Ternary

_CONTROL = "Ingress.atp_admission"
UPDATES, REPLIES, ELSEWHERE = (f"pipe.{_CONTROL}.{table}" for table in ("updates", "replies", "elsewhere"))
_ANY = Ternary(0, 0)
_UPDATE, _COMBINED = Ternary(1, 0xFF), Ternary(6, 0xFF)  # rdma_engine/wire/packet.h
_ANY_GROUP = Ternary(0xFF00, 0xFF00)
_PIPE = 0x180  # the bits of a port's number that are its pipe


class _Priority(enum.IntEnum):
    """The smallest wins."""

    HAND_OVER = 0
    ADMIT = 1
    ASK = 2
    SLOT = 3
    GROUP = 4
    WORKER = 5
    SECRET = 6


class AtpAdmission:
    def __init__(self, tables: Tables, journal: Journal, chip: Chip):
        self._tables = tables
        self._journal = journal
        self._chip = chip
        self._other_pipes = [pipe for pipe in chip.pipes if pipe != chip.size.pool_pipe]

    def fill(self) -> None:
        """Enters where replies go that come in on ports of other pipes."""
        self._tables.insert(
            [
                _entry(
                    ELSEWHERE,
                    {"ingress_port": Ternary(pipe * PORTS_OF_A_PIPE, _PIPE)},
                    0,
                    "reply_elsewhere",
                    port=self._chip.hand_over_way(0),
                )
                for pipe in self._other_pipes
            ]
        )

    def entries_of(self, children: tuple[Child, ...]) -> int:
        """Returns how many entries of the table of updates a job takes."""
        return sum((3 + len(self._other_pipes)) * len(_senders(child)) for child in children) + 3

    def add_job(self, job: CombinedJob) -> None:
        """Lets the children's packets be reported. They are admitted when the addresses are known."""
        self._journal.insert(job, [*self._of_unheard(job), *_of_rest(job)])

    def admit(self, job: CombinedJob, member: int) -> None:
        """Admits the packets of a child that has been heard from."""
        self._journal.insert(job, _of_heard(job, member), member)

    def admit_replies(self, job: CombinedJob) -> None:
        """Admits the replies of the job's servers. The multicast group exists."""
        self._journal.insert(job, [_reply(job, slot) for slot in range(job.slots)], OF_GROUP)

    def _of_unheard(self, job: CombinedJob) -> list[Entry]:
        """Returns the entries of all senders, wherever they are."""
        entries = []
        slots = Range(0, job.slots - 1)
        for member, child in enumerate(job.children):
            for sender in _senders(child):
                key = _of_sender(job, sender)
                ask = {"job_index": job.index, "rid": job.rid(member)}
                refuse = {"job_index": job.index, "reason": int(Reason.BAD_SLOT)}
                way = self._chip.hand_over_way(member)
                entries += [
                    _update({**key, "slot": slots, "ingress_port": port}, _Priority.HAND_OVER, "hand_over", port=way)
                    for port in (Ternary(pipe * PORTS_OF_A_PIPE, _PIPE) for pipe in self._other_pipes)
                ]
                entries.append(_update({**key, "slot": slots}, _Priority.ASK, "ask", **ask))
                entries.append(_update(key, _Priority.SLOT, "refuse", **refuse))
        return entries


def _senders(child: Child) -> list[int]:
    """Returns who may be named as the sender in a child's packets: itself, or workers whose packets it has sent on."""
    below = [] if child.group is None else list(child.workers)
    return [CombinedJob.sender_of(child), *below]


def _of_sender(job: CombinedJob, sender: int) -> dict[str, Match]:
    kind = _COMBINED if sender >= _ANY_GROUP.value else _UPDATE
    return {**_of_job(job), "kind": kind, "worker": Ternary(sender, 0xFFFF)}


def _of_job(job: CombinedJob) -> dict[str, Match]:
    return {"job": Ternary(job.id, 2**32 - 1), "secret": Ternary(job.secret, 2**64 - 1)}


def _of_heard(job: CombinedJob, member: int) -> list[Entry]:
    child, station = job.children[member], job.stations[member]
    at = {"address": Ternary(station.ip, 2**32 - 1), "port": Ternary(station.udp_port, 0xFFFF)}
    return [
        _update(
            {**_of_sender(job, sender), "slot": Range(0, job.slots - 1), **at},
            _Priority.ADMIT,
            "admit",
            job_index=job.index,
            first_entry=job.first_entry,
            rid=job.rid(member),
            others=job.members - 1,
            salt=job.salt,
            # A worker's packet that a switch below has sent on goes on from here. So does all that a lone child sends.
            passes=int(sender != CombinedJob.sender_of(child) or job.members == 1),
        )
        for sender in _senders(child)
    ]


def _of_rest(job: CombinedJob) -> list[Entry]:
    """Returns the entries that refuse the job's other packets: sums of groups that are no children, other senders, and
    those with another secret."""
    named: dict[str, Match] = {"job": Ternary(job.id, 2**32 - 1)}
    known = _of_job(job)
    rest = (
        ({**known, "kind": _COMBINED, "worker": _ANY_GROUP}, _Priority.GROUP, Reason.FOREIGN),
        (known, _Priority.WORKER, Reason.BAD_WORKER),
        (named, _Priority.SECRET, Reason.WRONG_SECRET),
    )
    return [_update(key, priority, "refuse", job_index=job.index, reason=int(reason)) for key, priority, reason in rest]


def _reply(job: CombinedJob, slot: int) -> Entry:
    server: Station = job.upstream[slot % len(job.upstream)]
    key = {"job": job.id, "secret": job.secret, "slot": slot, "address": server.ip, "port": server.udp_port}
    data = {"job_index": job.index, "entry": job.entry(slot), "group": job.group, "salt": job.salt}
    return Entry(REPLIES, key, data, f"{_CONTROL}.admit_reply")


def _update(key: dict[str, Match], priority: int, action: str, **data: int) -> Entry:
    """Returns an entry of the table of updates. What the key leaves out may be anything."""
    names = ("job", "secret", "kind", "worker", "slot", "address", "port", "ingress_port")
    whole = {name: key.get(name, Range(0, 0xFFFF) if name == "slot" else _ANY) for name in names}
    return _entry(UPDATES, whole, priority, action, **data)


def _entry(table: str, key: dict[str, Match], priority: int, action: str, **data: int) -> Entry:
    return Entry(table, {**key, "$MATCH_PRIORITY": int(priority)}, data, f"{_CONTROL}.{action}")
