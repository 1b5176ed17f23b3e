"""What the control service needs of the thing that moves packets: the software switch, or a
hardware one's driver.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from typing import Any, Protocol

from jaxina._native import JobShape
from jaxina.errors import InvalidArgumentError

_NUMBERS = 2**24  # queue pairs and packets are numbered in 24 bits
_MTUS = (256, 512, 1024, 2048, 4096)


@dataclasses.dataclass(frozen=True)
class QueuePairs:
    """One end of a set of RDMA queue pairs, as the other end must know it; control.proto says what
    the fields are.
    """

    address: str
    udp_port: int
    mtu: int
    qpns: tuple[int, ...]
    psn: int
    rkey: int = dataclasses.field(repr=False)
    memory: int

    def check(self, slots: int) -> None:
        """Raises InvalidArgumentError if this cannot be a worker's end in a job of so many slots."""
        try:
            address = ipaddress.IPv4Address(self.address)
        except ValueError:
            raise InvalidArgumentError(
                f"queue pairs at {self.address[:64]!r}: give an IPv4 address in numbers"
            ) from None
        if address.is_multicast or address.is_unspecified or address.is_reserved:
            raise InvalidArgumentError(f"queue pairs at {address}, which is no host's address")
        if not 0 < self.udp_port < 65536:
            raise InvalidArgumentError(f"queue pairs at UDP port {self.udp_port}: give 1 to 65535")
        if self.mtu not in _MTUS:
            raise InvalidArgumentError(f"RDMA packets of {self.mtu} bytes: give {', '.join(map(str, _MTUS))}")
        if len(self.qpns) != slots + 1:
            raise InvalidArgumentError(
                f"a worker of a job of {slots} slots connects {slots + 1} queue pairs, not {len(self.qpns)}"
            )
        if max(self.qpns) >= _NUMBERS or self.psn >= _NUMBERS:
            raise InvalidArgumentError("queue pairs and packets are numbered in 24 bits")


@dataclasses.dataclass(frozen=True)
class Terms:
    """What a data plane asks of the workers, beyond the protocol."""

    whole_chunks: bool = False  # a pass has no words, or those of a whole chunk
    checksums: bool = True  # replies carry a CRC; RDMA packets a right ICRC


class DataPlane(Protocol):
    """No method waits for the network. Errors are JaxinaErrors and reach the worker that asked."""

    @property
    def terms(self) -> Terms: ...

    @property
    def ports(self) -> list[int]:
        """UDP ports of the data path; slot i of a job belongs to ports[i % len(ports)]."""
        ...

    def add_job(self, job: int, secret: int, shape: JobShape) -> None: ...

    def remove_job(self, job: int) -> None: ...

    def abort_job(self, job: int, code: str, message: str) -> None:
        """From now on answers the job's packets with this error."""
        ...

    def statistics(self) -> dict[str, Any]:
        """{"rejected": {kind: packets}, "jobs": {job: {counter: value, "rejected": {kind: packets}}},
        counter: value}.

        The outer `rejected` counts packets that belong to no job. Counters that `jaxina status`
        shows: updates, duplicates (retransmissions of updates that were counted already),
        packets_sent, bytes_received, bytes_sent; of the whole: socket_overflows (packets lost
        because a socket's buffer was full). One that is not counted is left out.
        """
        ...

    def missing(self, job: int) -> list[int]:
        """Workers that some slot waits for."""
        ...

    def slots_that_fit(self, shape: JobShape) -> int:
        """How many passes each worker of such a job may have in flight at first, so that the bursts
        of all fit the buffers; 0: not known."""
        ...

    def connect_queue_pairs(self, job: int, worker: int, end: QueuePairs) -> QueuePairs:
        """Gives a joined worker of the job queue pairs of this switch. `end` is a sound one
        (`QueuePairs.check`).

        Raises:
          InvalidArgumentError: there is no RDMA here, or the end does not fit the switch.
        """
        ...
