"""Enters whose packets are admitted, and which slots they may name (p4/tofino/job_admission.p4).

Entries of one job match no packet of another, so priorities matter only within a job.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from jaxina.controller.chip import PORTS_OF_A_PIPE, Chip
from jaxina.controller.journal import Journal, Written
from jaxina.controller.pool import SLOT_BITS, Job
from jaxina.controller.statistics import Reason
from jaxina.controller.tables import Entry, Match, Range, Tables, Ternary

_CONTROL = "Ingress.job_admission"
_UDP, _ROCE = f"pipe.{_CONTROL}.udp_updates", f"pipe.{_CONTROL}.roce_writes"
_HAND_OVER, _ADMIT, _SLOT, _WORKER, _JOB = range(5)  # priorities; the smallest wins
_ANY = Ternary(0, 0)
_ANY_SLOT = Range(0, 0xFFFF)
_ALL = {16: 0xFFFF, 24: 0xFFFFFF, 32: 0xFFFFFFFF, 64: 2**64 - 1}


class JobAdmission:
    def __init__(self, tables: Tables, journal: Journal, chip: Chip):
        self._tables = tables
        self._journal = journal
        self._other_pipes = [pipe for pipe in chip.pipes if pipe != chip.size.pool_pipe]
        self._chip = chip

    @property
    def entries_per_worker(self) -> int:
        return 2 + len(self._other_pipes)

    def add_job(self, job: Job) -> None:
        """Admits the datagrams of all workers. RDMA workers are admitted when they connect."""
        entries = [entry for worker in range(job.workers) for entry in self._of_worker(job, worker)]
        self._journal.insert(job, [*entries, *self._of_rest(job, Reason.BAD_WORKER)])

    def connect(self, job: Job, worker: int, ip: str) -> None:
        self._journal.insert(job, self._of_queue_pairs(job, worker, ip), worker)

    def end_job(self, job: Job) -> None:
        """From now on no packet of the job is added, and none is answered."""
        try:
            self._journal.take_back(job, _admits)
        finally:
            self._tables.modify(self._of_rest(job, Reason.ENDED)[:1])

    def _of_worker(self, job: Job, worker: int) -> list[Entry]:
        names = {
            "job": Ternary(job.id, _ALL[32]),
            "secret": Ternary(job.secret, _ALL[64]),
            "worker": Ternary(worker, _ALL[16]),
        }
        return self._admissions(_UDP, names, job, worker, Reason.BAD_SLOT, names)

    def _of_queue_pairs(self, job: Job, worker: int, ip: str) -> list[Entry]:
        queue_pairs = Ternary(job.queue_pair(worker, 0), _ALL[24] & ~((1 << SLOT_BITS) - 1))
        source = Ternary(int(ipaddress.IPv4Address(ip)), _ALL[32])
        names = {"qpn": queue_pairs, "source": source, "rkey": Ternary(job.rkey, _ALL[32])}
        below = {**names, "rkey": _ANY}
        return self._admissions(_ROCE, names, job, worker, Reason.NO_ACCESS, below)

    def _admissions(
        self,
        table: str,
        names: dict[str, Ternary],
        job: Job,
        worker: int,
        reason: Reason,
        below: dict[str, Ternary],
    ) -> list[Entry]:
        """Returns the entries of one worker. Packets that name the job's slots are handed over to the pool's pipe and
        admitted there. Packets that name other slots are refused."""
        slots = Range(0, job.slots - 1)
        entries = [
            _entry(
                table,
                {**names, "slot": slots, "ingress_port": Ternary(pipe * PORTS_OF_A_PIPE, 0x180)},
                _HAND_OVER,
                "hand_over",
                port=self._chip.hand_over_way(worker),
            )
            for pipe in self._other_pipes
        ]
        entries.append(
            _entry(
                table,
                {**names, "slot": slots, "ingress_port": _ANY},
                _ADMIT,
                "admit",
                job_index=job.index,
                slot_base=job.slot_base,
                worker=worker,
                others=job.workers - 1,
                bit_of_worker=1 << (24 - 8 * (worker // 8) + worker % 8),
                group=job.group,
            )
        )
        return [*entries, _refusal(table, {**below, "slot": _ANY_SLOT}, _SLOT, job, reason)]

    def _of_rest(self, job: Job, otherwise: Reason) -> Sequence[Entry]:
        """Returns the entries that refuse the job's other datagrams: those with its secret but none of its workers, and
        those with another secret."""
        named = {"job": Ternary(job.id, _ALL[32])}
        secret = Ternary(job.secret, _ALL[64])
        rest: dict[str, Match] = {"worker": _ANY, "slot": _ANY_SLOT}
        return (
            _refusal(_UDP, {**named, "secret": secret, **rest}, _WORKER, job, otherwise),
            _refusal(_UDP, {**named, "secret": _ANY, **rest}, _JOB, job, Reason.WRONG_SECRET),
        )


def _admits(written: Written) -> bool:
    """Whether an entry is about one worker's packets."""
    entry = written.entry
    return entry.table == _ROCE or (entry.table == _UDP and entry.key["$MATCH_PRIORITY"] in (_HAND_OVER, _ADMIT, _SLOT))


def _refusal(table: str, key: dict[str, Match], priority: int, job: Job, reason: Reason) -> Entry:
    key = {**key, "ingress_port": _ANY}
    return _entry(table, key, priority, "refuse", job_index=job.index, reason=int(reason))


def _entry(table: str, key: dict[str, Match], priority: int, action: str, **data: int) -> Entry:
    return Entry(table, {**key, "$MATCH_PRIORITY": priority}, data, f"{_CONTROL}.{action}")
