"""Makes the chip a data plane of the control service (`jaxina.control.data_plane.DataPlane`)."""

from __future__ import annotations

import ipaddress
import logging
import secrets
from collections.abc import Callable
from typing import Any

from jaxina._native import JobShape
from jaxina.control.data_plane import QueuePairs
from jaxina.control.roles import Combine, Serve
from jaxina.controller import port_load, take_over
from jaxina.controller.chip import Chip
from jaxina.controller.chip_plane import ChipPlane
from jaxina.controller.job_admission import JobAdmission
from jaxina.controller.journal import Journal
from jaxina.controller.pass_tag import PassTag
from jaxina.controller.pool import WORKER_BITS, Job, Pool, Station
from jaxina.controller.recirculation import Recirculation
from jaxina.controller.replies import Replies
from jaxina.controller.sequence_number import SequenceNumber
from jaxina.controller.slot_turn import SlotTurn
from jaxina.controller.source_check import SourceCheck
from jaxina.controller.statistics import Statistics
from jaxina.controller.tables import Digest, Tables
from jaxina.controller.worker_stamp import WorkerStamp
from jaxina.errors import InvalidArgumentError

_log = logging.getLogger("jaxina.switch")

ROCE_PORT = 4791
_PATH_MTU = 4096


class TofinoPlane(ChipPlane):
    """The chip with the program jaxina.p4, which sums.

    Args:
      tables: the chip's tables.
      chip: the switch's description.
      random_bits: `random_bits(n)` draws keys and sequence numbers of n bits.
    """

    _pool: Pool

    def __init__(
        self,
        tables: Tables,
        chip: Chip,
        random_bits: Callable[[int], int] = secrets.randbits,
    ):
        self._random_bits = random_bits
        journal = Journal(tables, take_over.ADMITTING)
        self._job_admission = JobAdmission(tables, journal, chip)
        self._source_check = SourceCheck(journal)
        self._slot_turn = SlotTurn(tables)
        self._pass_tag = PassTag(tables)
        self._worker_stamp = WorkerStamp(tables)
        self._sequence_number = SequenceNumber(tables)
        self._replies = Replies(journal, chip.size)
        self._statistics = Statistics(tables)
        super().__init__(tables, chip, journal, Pool(chip.size, self._job_admission.entries_per_worker))

    def _take_over(self) -> None:
        take_over.empty(self._tables)
        self._fill()
        Recirculation(self._tables).fill(self._chip)

    def add_job(self, job: int, secret: int, shape: JobShape) -> None:
        with self._lock:
            self._clean_up()
            rkey = self._random_bits(32)
            added = self._pool.add(
                job, secret, shape.workers, shape.slots, shape.block_size, shape.blocks_per_chunk, rkey
            )
            try:
                port_load.check(self._chip, list(self._pool.jobs.values()))
                # Clears what an older job may have left in the registers.
                self._slot_turn.clear(added)
                self._pass_tag.clear(added)
                self._worker_stamp.clear(added)
                self._statistics.clear(added)
                self._job_admission.add_job(added)
            except BaseException:
                self.remove_job(job)
                raise

    def slots_that_fit(self, shape: JobShape) -> int:
        """Returns 0, not known: packets of all ports share the chip's buffer."""
        return 0

    def abort_job(self, job: int, code: str, message: str) -> None:
        """Stops admitting the job's packets. The chip sends no notice: workers learn why from the control service."""
        with self._lock:
            ended = self._pool.jobs[job]
            if not ended.ended:
                ended.ended = True
                self._job_admission.end_job(ended)

    def combine_job(self, job: int, secret: int, shape: JobShape, combine: Combine) -> None:
        raise InvalidArgumentError(
            "this Tofino runs the program that sums: it does not combine updates of aggregator='atp'"
        )

    def serve_part(self, job: int, secret: int, shape: JobShape, serve: Serve) -> None:
        raise InvalidArgumentError("a Tofino sums whole jobs: it cannot be one of a job's servers")

    def connect_queue_pairs(self, job: int, worker: int, end: QueuePairs) -> QueuePairs:
        with self._lock:
            found = self._pool.jobs[job]
            station = self._station_of(found, worker, end)
            if found.ended:
                raise InvalidArgumentError(f"job {job} has ended")
            psn = self._random_bits(24)
            with self._entering(found, worker, station):
                self._sequence_number.begin(found, worker, psn)
                self._replies.add_rdma(found, worker, station, end)
                self._multicast.add_member(found, worker)
                self._job_admission.connect(found, worker, end.address)
            qpns = tuple(found.queue_pair(worker, queue) for queue in range(found.slots + 1))
            return QueuePairs(self._chip.address, ROCE_PORT, min(end.mtu, _PATH_MTU), qpns, psn, found.rkey, 0)

    def statistics(self) -> dict[str, Any]:
        with self._lock:
            jobs = {id: self._statistics.of_job(job) for id, job in self._pool.jobs.items()}
            return {"rejected": self._statistics.of_no_job(), "jobs": jobs, "ports": self._port_statistics.read()}

    def missing(self, job: int) -> list[int]:
        with self._lock:
            found = self._pool.jobs[job]
            return self._worker_stamp.missing(found, self._slot_turn.turns(found))

    def part_of(self, job: int) -> Job:
        """Returns the job's part of the chip."""
        with self._lock:
            return self._pool.jobs[job]

    def _station_of(self, job: Job, worker: int, end: QueuePairs) -> Station:
        """Returns where an RDMA worker is.

        Raises:
          InvalidArgumentError: if the program cannot serve the worker.
        """
        size = self._chip.size
        host = self._chip.host(end.address)
        if host is None:
            raise InvalidArgumentError(
                f"this switch does not know the host {end.address}: add it to its file as a [[host]]"
            )
        if end.mtu < size.message_bytes:
            raise InvalidArgumentError(
                f"packets of {end.mtu} bytes; this switch needs a pass, {size.message_bytes} bytes, in one: raise the "
                "network's MTU"
            )
        if end.memory % (4 * size.place_bytes):
            raise InvalidArgumentError(
                f"memory for results at {end.memory:#x}; this switch needs it aligned to {4 * size.place_bytes} bytes"
            )
        return Station(host.mac, int(ipaddress.IPv4Address(host.ip)), end.udp_port, host.port, rdma=True)

    # ---- digests, which the program sends

    def _on_digest(self, digest: Digest) -> None:
        fields = digest.fields
        with self._lock:
            index, worker = fields["rid"] >> WORKER_BITS, fields["rid"] % (1 << WORKER_BITS)
            job = self._pool.of_index(index)
            if job is None or job.ended or worker >= job.workers:
                return
            if digest.name == "heard":
                station = Station(fields["mac"], fields["ip"], fields["port"], fields["ingress_port"])
                self._on_heard(job, worker, station)
                return
            id = job.id
        # Called without the lock, because the control service may be waiting for the lock.
        self.ended(
            id,
            "MISMATCH",
            f"worker {worker} sums something else than the others in the same call: check that all run the same "
            "programs in the same order, with equal shapes and dtypes (threads that run programs at the same time have "
            "no common order)",
        )

    def _on_heard(self, job: Job, worker: int, station: Station) -> None:
        """Enters the address of a worker whose first packet has come. The packet was dropped, and will come again.

        The worker's address is that of the first packet with the job's secret, and it stays. So a replay from elsewhere
        diverts nothing. The address of the control connection may differ, if control and data use different networks.
        """
        if worker in job.stations:
            return
        with self._entering(job, worker, station):
            self._replies.add_udp(job, worker, station)
            self._multicast.add_member(job, worker)
            self._source_check.add(job, worker, station)
        address = ipaddress.IPv4Address(station.ip)
        _log.info("job %d: worker %d speaks from %s:%d", job.id, worker, address, station.udp_port)
