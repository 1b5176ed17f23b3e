"""Joins the software switch's data planes into one: datagrams, and RDMA if it is switched on."""

from __future__ import annotations

from typing import Any

from jaxina._native import JobShape, RoceSwitch, SoftwareSwitch
from jaxina.control.data_plane import QueuePairs, Terms
from jaxina.control.roles import Combine, Serve
from jaxina.errors import InvalidArgumentError


class SwitchPlanes:
    """A DataPlane made of a native SoftwareSwitch and, if given, a native RoceSwitch.

    The plane for datagrams has every job. The plane for RDMA gets a job only when its first worker connects queue
    pairs, so that jobs without RDMA take no slots there.
    """

    terms = Terms()

    def __init__(self, datagrams: SoftwareSwitch, rdma: RoceSwitch | None):
        self._datagrams = datagrams
        self._rdma = rdma
        self._specs: dict[int, tuple[int, JobShape]] = {}
        self._rdma_jobs: set[int] = set()  # those that the native RoceSwitch knows

    @property
    def ports(self) -> list[int]:
        return self._datagrams.ports

    def add_job(self, job: int, secret: int, shape: JobShape) -> None:
        self._datagrams.add_job(job, secret, shape)
        self._specs[job] = (secret, shape)

    def add_encrypted_job(self, job: int, secret: int, shape: JobShape, key: bytes) -> None:
        self._datagrams.add_job(job, secret, shape, key)  # not for RDMA, so no queue pairs can be connected

    def slots_that_fit(self, shape: JobShape) -> int:
        return self._datagrams.slots_that_fit(shape)

    def remove_job(self, job: int) -> None:
        self._specs.pop(job, None)
        self._datagrams.remove_job(job)
        if self._rdma is not None and job in self._rdma_jobs:
            self._rdma_jobs.remove(job)
            self._rdma.remove_job(job)

    def abort_job(self, job: int, code: str, message: str) -> None:
        self._datagrams.abort_job(job, code, message)
        if self._rdma is not None and job in self._rdma_jobs:
            self._rdma.abort_job(job, code, message)

    def combine_job(self, job: int, secret: int, shape: JobShape, combine: Combine) -> None:
        children = [(child.workers, child.group) for child in combine.children]
        self._datagrams.combine_job(job, secret, shape, combine.group, children, combine.upstream, combine.ways)

    def serve_part(self, job: int, secret: int, shape: JobShape, serve: Serve) -> None:
        self._datagrams.add_part(job, secret, shape, serve.index, serve.of, serve.groups, serve.switches)

    def connect_queue_pairs(self, job: int, worker: int, end: QueuePairs) -> QueuePairs:
        if self._rdma is None:
            raise InvalidArgumentError(
                "this switch has no RDMA: start it with --rdma and an IPv4 address of its host, or use aggregator='udp'"
            )
        if job not in self._specs:
            raise InvalidArgumentError(
                "the packets of this job are to be encrypted, and those of RDMA cannot be: use aggregator='udp', or "
                "leave JAXINA_ENCRYPTION out"
            )
        if job not in self._rdma_jobs:
            self._rdma.add_job(job, *self._specs[job])
            self._rdma_jobs.add(job)
        theirs = (end.address, end.udp_port, end.mtu, end.qpns, end.psn, end.rkey, end.memory)
        address, udp_port, mtu, qpns, psn, rkey, memory = self._rdma.connect(job, worker, theirs)
        return QueuePairs(address, udp_port, mtu, tuple(qpns), psn, rkey, memory)

    def statistics(self) -> dict[str, Any]:
        statistics = self._datagrams.statistics()
        if self._rdma is None:
            return statistics
        _add(statistics, self._rdma.statistics())
        return statistics

    def missing(self, job: int) -> list[int]:
        if self._rdma is not None and job in self._rdma_jobs:
            return self._rdma.missing(job)
        return self._datagrams.missing(job)


def _add(total: dict[str, Any], terms: dict[str, Any]) -> None:
    """Adds the counters of `terms` to those of `total`, by name; dicts of counters too."""
    for name, value in terms.items():
        if isinstance(value, dict):
            _add(total.setdefault(name, {}), value)
        else:
            total[name] = total.get(name, 0) + value
