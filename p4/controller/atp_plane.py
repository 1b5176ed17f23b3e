"""Makes a chip that runs atp.p4 a data plane of the control service: it combines updates on their way to servers."""

from __future__ import annotations

import ipaddress
import logging
import secrets
from collections.abc import Callable
from typing import Any

from jaxina._native import JobShape
from jaxina.control.data_plane import QueuePairs
from jaxina.control.roles import Combine, Serve
from jaxina.controller import atp_admission, atp_ways, port_load, take_over
from jaxina.controller.atp_admission import AtpAdmission
from jaxina.controller.atp_pool import ENTRIES, AtpPool, CombinedJob
from jaxina.controller.atp_statistics import AtpStatistics
from jaxina.controller.atp_ways import AtpWays
from jaxina.controller.chip import Chip
from jaxina.controller.chip_plane import ChipPlane
from jaxina.controller.journal import Journal
from jaxina.controller.pool import WORKER_BITS, Station
from jaxina.controller.tables import Digest, Tables
from jaxina.errors import InvalidArgumentError, JobRejectedError

_log = logging.getLogger("jaxina.switch")

_ADMITTING = (atp_admission.UPDATES, atp_admission.REPLIES)
_LIFETIME = 0.2  # seconds of an entry (p4/tofino/atp_constants.p4)


class AtpPlane(ChipPlane):
    """The chip with the program atp.p4, which combines.

    What a job that goes leaves in the chip's entries becomes free when it is too old. No later job has its keys.

    Args:
      tables: the chip's tables.
      chip: the switch's description.
      entries: over how many entries the jobs' first ones are spread.
      random_bits: `random_bits(n)` draws the first salt, of n bits.
    """

    _pool: AtpPool

    def __init__(
        self,
        tables: Tables,
        chip: Chip,
        entries: int = ENTRIES,
        random_bits: Callable[[int], int] = secrets.randbits,
    ):
        journal = Journal(tables, _ADMITTING)
        self._admission = AtpAdmission(tables, journal, chip)
        self._ways = AtpWays(tables, journal, chip)
        self._statistics = AtpStatistics(tables)
        super().__init__(tables, chip, journal, AtpPool(entries, random_bits(32)))

    def _take_over(self) -> None:
        """Nobody joins an entry of an earlier controller's jobs after this, because they are too old."""
        others = (*take_over.OF_ALL_PROGRAMS, atp_admission.ELSEWHERE, *atp_ways.TABLES)
        take_over.empty(self._tables, _ADMITTING, others, take_over.PACKET_LIFETIME + _LIFETIME)
        self._fill()
        self._admission.fill()
        self._ways.fill()

    def combine_job(self, job: int, secret: int, shape: JobShape, combine: Combine) -> None:
        if combine.ways != 1:
            raise JobRejectedError(
                "a switch below this one has several ports, and this switch sends results to one: start it with "
                "--threads 1"
            )
        with self._lock:
            self._clean_up()
            words = shape.block_size * shape.blocks_per_chunk
            upstream = tuple(self._station_of(host, port) for host, port in combine.upstream)
            wanted = self._admission.entries_of(combine.children)
            free = self._chip.size.admissions - sum(
                self._admission.entries_of(other.children) for other in self._pool.taken
            )
            if wanted > free:
                raise JobRejectedError(
                    f"this switch has {free} free entries to admit packets; the job's workers need {wanted}"
                    f"{self._pool.leftovers()}"
                )
            added = self._pool.add(job, secret, shape.slots, words, combine.group, combine.children, upstream)
            try:
                port_load.check(self._chip, list(self._pool.jobs.values()))
                self._statistics.clear(added)
                self._ways.add_job(added)
                self._admission.add_job(added)
            except BaseException:
                self.remove_job(job)
                raise

    def add_job(self, job: int, secret: int, shape: JobShape) -> None:
        raise InvalidArgumentError(
            "this Tofino runs the program that combines updates of aggregator='atp': it does not sum jobs of 'udp'"
        )

    def abort_job(self, job: int, code: str, message: str) -> None:
        raise InvalidArgumentError("a switch that combines updates ends no jobs: their servers do")

    def serve_part(self, job: int, secret: int, shape: JobShape, serve: Serve) -> None:
        raise InvalidArgumentError("a Tofino combines updates: it cannot be one of a job's servers")

    def connect_queue_pairs(self, job: int, worker: int, end: QueuePairs) -> QueuePairs:
        raise InvalidArgumentError("this Tofino runs the program that combines updates, which has no RDMA")

    def slots_that_fit(self, shape: JobShape) -> int:
        """Returns 0, not known: packets of all ports share the chip's buffer."""
        return 0

    def statistics(self) -> dict[str, Any]:
        with self._lock:
            jobs = {id: self._statistics.of_job(job) for id, job in self._pool.jobs.items()}
            return {"rejected": self._statistics.of_no_job(), "jobs": jobs, "ports": self._port_statistics.read()}

    def missing(self, job: int) -> list[int]:
        """Returns nobody: a switch does not know for whom a pass waits at its server."""
        return []

    def part_of(self, job: int) -> CombinedJob:
        """Returns the job's part of the chip."""
        with self._lock:
            return self._pool.jobs[job]

    def _station_of(self, host: str, port: int) -> Station:
        known = self._chip.host(host)
        if known is None:
            raise JobRejectedError(f"this switch does not know the host {host}: add it to its file as a [[host]]")
        return Station(known.mac, int(ipaddress.IPv4Address(known.ip)), port, known.port)

    def _on_digest(self, digest: Digest) -> None:
        """Enters the address of a child whose first packet has come. The packet was dropped, and will come again.

        The address stays, so a replay from elsewhere diverts no results.
        """
        fields = digest.fields
        with self._lock:
            index, member = fields["rid"] >> WORKER_BITS, fields["rid"] % (1 << WORKER_BITS)
            job = self._pool.of_index(index)
            if job is None or member >= job.members or member in job.stations:
                return
            station = Station(fields["mac"], fields["ip"], fields["port"], fields["ingress_port"])
            self._heard(job, member, station)

    def _heard(self, job: CombinedJob, member: int, station: Station) -> None:
        with self._entering(job, member, station):
            self._ways.add_child(job, member)
            self._multicast.add_member(job, member)
            if len(job.stations) == job.members:
                self._admission.admit_replies(job)
            self._admission.admit(job, member)
        address = ipaddress.IPv4Address(station.ip)
        _log.info("job %d: sender %d speaks from %s:%d", job.id, member, address, station.udp_port)
