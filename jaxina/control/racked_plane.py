"""The DataPlane of a transparent switch above racks, whose switches add first (docs/netreduce.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxina._native import FrameSwitch, JobShape
from jaxina.control.assistance import Helpers
from jaxina.control.data_plane import QueuePairs
from jaxina.control.roles import RackOfRing
from jaxina.control.transparent_plane import TransparentPlane, fields_of
from jaxina.errors import InvalidArgumentError, JaxinaError


class RackedPlane(TransparentPlane):
    """A TransparentPlane that also tells the switches of racks about rings.

    Args:
      frames: the switch between those of the racks.
      racks: the addresses of the workers of each rack, by the control address of the rack's switch.
      helpers: calls those switches.

    Attributes:
      ended: called as ``ended(job, code, message)``, on any thread, when a rack's switch is lost.
    """

    def __init__(self, frames: FrameSwitch, racks: Mapping[str, Sequence[str]], helpers: Helpers):
        super().__init__(frames)
        self._controls = list(racks)
        self._rack_of = {address: rack for rack, addresses in enumerate(racks.values()) for address in addresses}
        self._helpers = helpers
        self._secrets: dict[int, int] = {}
        self.ended: Callable[[int, str, str], Any] = lambda job, code, message: None

    def add_job(self, job: int, secret: int, shape: JobShape) -> None:
        super().add_job(job, secret, shape)
        self._secrets[job] = secret

    def remove_job(self, job: int) -> None:
        self._secrets.pop(job, None)
        self._helpers.release(job)
        super().remove_job(job)

    def connect_ring(self, job: int, ends: Sequence[QueuePairs]) -> None:
        racks = [self._rack(rank, end.address) for rank, end in enumerate(ends)]
        shape, secret = self._shapes[job], self._secrets[job]
        if len(set(racks)) > 1:  # it also checks the order. In a single rack, its switch adds alone
            self._frames.add_ring(job, shape, [fields_of(end) for end in ends], racks)
        roles = {self._controls[own]: RackOfRing(tuple(ends), tuple(racks), own) for own in set(racks)}

        def lost(error: JaxinaError) -> None:
            self.ended(job, error.code, error.message)

        self._helpers.sum_racks(job, secret, shape, roles, lost)

    def _rack(self, rank: int, address: str) -> int:
        if address not in self._rack_of:
            raise InvalidArgumentError(
                f"worker {rank} has the address {address}, which is in no rack of the switch: name it in the --rack of "
                "its rack's switch"
            )
        return self._rack_of[address]
