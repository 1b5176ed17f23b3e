"""The DataPlane of a control service in a worker's process. No packet goes there: its jobs are summed elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxina._native import JobShape
from jaxina.control.data_plane import QueuePairs, Terms
from jaxina.control.roles import Combine, Serve
from jaxina.errors import InvalidArgumentError


class ServersAtWorkers:
    """The DataPlane of jobs that are summed by the workers' own servers, by hosts that are servers, or in a ring."""

    terms = Terms()

    @property
    def ports(self) -> list[int]:
        return []

    def add_job(self, job: int, secret: int, shape: JobShape) -> None:
        """Does nothing: each worker has added the job to its own server before it joins."""

    def add_encrypted_job(self, job: int, secret: int, shape: JobShape, key: bytes) -> None:
        """Does nothing, as `add_job`."""

    def remove_job(self, job: int) -> None:
        """Does nothing: each worker's server ends with the worker."""

    def abort_job(self, job: int, code: str, message: str) -> None:
        """Does nothing: each worker tells its own server."""

    def combine_job(self, job: int, secret: int, shape: JobShape, combine: Combine) -> None:
        raise InvalidArgumentError("a worker combines no updates: name a switch")

    def serve_part(self, job: int, secret: int, shape: JobShape, serve: Serve) -> None:
        raise InvalidArgumentError("a worker serves only jobs of its own")

    def statistics(self) -> dict[str, Any]:
        return {"rejected": {}, "jobs": {}}

    def missing(self, job: int) -> list[int]:
        return []

    def slots_that_fit(self, shape: JobShape) -> int:
        return 0

    def connect_queue_pairs(self, job: int, worker: int, end: QueuePairs) -> QueuePairs:
        raise InvalidArgumentError("the workers' own servers have no RDMA")

    def connect_ring(self, job: int, ends: Sequence[QueuePairs]) -> None:
        """Does nothing: the workers of a ring add."""
