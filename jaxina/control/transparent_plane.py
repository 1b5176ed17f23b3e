"""The DataPlane of a transparent switch, which stands between the workers of rings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxina._native import FrameSwitch, JobShape
from jaxina.control.data_plane import QueuePairs, Terms
from jaxina.control.roles import Combine, RackOfRing, Serve
from jaxina.errors import InvalidArgumentError

_RINGS_ONLY = "this switch is transparent: it sums rings only. Use aggregator='netreduce', or another switch"


class TransparentPlane:
    """A DataPlane made of a native FrameSwitch. A job is summed once its workers have told their queue pairs."""

    terms = Terms()

    def __init__(self, frames: FrameSwitch):
        self._frames = frames
        self._shapes: dict[int, JobShape] = {}

    @property
    def ports(self) -> list[int]:
        return []

    def add_job(self, job: int, secret: int, shape: JobShape) -> None:
        self._shapes[job] = shape

    def remove_job(self, job: int) -> None:
        self._shapes.pop(job, None)
        self._frames.remove_ring(job)

    def abort_job(self, job: int, code: str, message: str) -> None:
        """Does nothing: the switch speaks to no worker, and the control service tells them."""

    def connect_ring(self, job: int, ends: Sequence[QueuePairs]) -> None:
        self._frames.add_ring(job, self._shapes[job], [fields_of(end) for end in ends])

    def rack_bytes(self, shape: JobShape, rack: RackOfRing) -> int:
        return FrameSwitch.ring_bytes(shape, [fields_of(end) for end in rack.ends], rack.racks, rack.own)

    def sum_rack(self, job: int, shape: JobShape, rack: RackOfRing) -> None:
        self._frames.add_ring(job, shape, [fields_of(end) for end in rack.ends], rack.racks, rack.own)

    def connect_queue_pairs(self, job: int, worker: int, end: QueuePairs) -> QueuePairs:
        raise InvalidArgumentError(_RINGS_ONLY)

    def combine_job(self, job: int, secret: int, shape: JobShape, combine: Combine) -> None:
        raise InvalidArgumentError(_RINGS_ONLY)

    def serve_part(self, job: int, secret: int, shape: JobShape, serve: Serve) -> None:
        raise InvalidArgumentError(_RINGS_ONLY)

    def statistics(self) -> dict[str, Any]:
        return self._frames.statistics()

    def missing(self, job: int) -> list[int]:
        return []

    def slots_that_fit(self, shape: JobShape) -> int:
        return 0


def fields_of(end: QueuePairs) -> tuple[str, int, int, list[int], int, int, int]:
    return end.address, end.udp_port, end.mtu, list(end.qpns), end.psn, end.rkey, end.memory
