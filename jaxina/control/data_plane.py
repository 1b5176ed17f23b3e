"""What the control service needs from a data plane: the software switch, or the driver of a hardware switch."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from jaxina._native import JobShape
from jaxina.errors import InvalidArgumentError

if TYPE_CHECKING:  # they need protobuf, which a process without a control service does not
    from jaxina.control import control_pb2 as pb
    from jaxina.control.roles import Combine, RackOfRing, Serve

_NUMBERS = 2**24  # queue pairs and packets are numbered in 24 bits
_MTUS = (256, 512, 1024, 2048, 4096)
_OF_RING = 2  # queue pairs of a worker in a ring: one that sends, and one that receives


@dataclasses.dataclass(frozen=True)
class QueuePairs:
    """What one end of a set of RDMA queue pairs must know about the other end. control.proto describes the fields."""

    address: str
    udp_port: int
    mtu: int
    qpns: tuple[int, ...]
    psn: int
    rkey: int = dataclasses.field(repr=False)
    memory: int

    @classmethod
    def told(cls, end: pb.QueuePairs) -> QueuePairs:
        """Those of a control message."""
        return cls(end.address, end.udp_port, end.mtu, tuple(end.qpns), end.psn, end.rkey, end.memory)

    def check(self, slots: int) -> None:
        """Checks that this can be a worker's end in a job with `slots` slots.

        Raises:
          InvalidArgumentError: it cannot.
        """
        if len(self.qpns) != slots + 1:
            raise InvalidArgumentError(
                f"a worker of a job with {slots} slots must connect {slots + 1} queue pairs, not {len(self.qpns)}"
            )
        self._check_fields()

    def check_in_ring(self) -> None:
        """Checks that this can be a worker's end in a ring.

        Raises:
          InvalidArgumentError: it cannot.
        """
        if len(self.qpns) != _OF_RING:
            raise InvalidArgumentError(f"a worker in a ring must connect {_OF_RING} queue pairs, not {len(self.qpns)}")
        self._check_fields()

    def _check_fields(self) -> None:
        try:
            address = ipaddress.IPv4Address(self.address)
        except ValueError:
            raise InvalidArgumentError(
                f"the queue pairs' address {self.address[:64]!r} is not a numeric IPv4 address"
            ) from None
        if address.is_multicast or address.is_unspecified or address.is_reserved:
            raise InvalidArgumentError(f"the queue pairs' address {address} is not the address of a host")
        if not 0 < self.udp_port < 65536:
            raise InvalidArgumentError(f"the queue pairs' UDP port {self.udp_port} is not from 1 to 65535")
        if self.mtu not in _MTUS:
            raise InvalidArgumentError(f"an RDMA MTU of {self.mtu} bytes is not one of {', '.join(map(str, _MTUS))}")
        if max(self.qpns) >= _NUMBERS or self.psn >= _NUMBERS:
            raise InvalidArgumentError("a queue pair's number or the first packet's number does not fit into 24 bits")


@dataclasses.dataclass(frozen=True)
class Terms:
    """What a data plane asks of the workers, in addition to the protocol.

    Attributes:
      whole_chunks: whether each pass must carry either no words or those of a whole chunk.
      checksums: whether the data plane's replies carry a CRC, and its RDMA packets a valid ICRC.
    """

    whole_chunks: bool = False
    checksums: bool = True


class DataPlane(Protocol):
    """A data plane.

    No method waits for the network. Methods raise JaxinaErrors, which are passed on to the worker that asked.
    """

    @property
    def terms(self) -> Terms:
        """What this data plane asks of the workers."""
        ...

    @property
    def ports(self) -> list[int]:
        """The UDP ports of the data path. Slot i of a job belongs to ``ports[i % len(ports)]``."""
        ...

    def add_job(self, job: int, secret: int, shape: JobShape) -> None:
        """Makes the slots of a job. From now on its packets are answered."""
        ...

    def remove_job(self, job: int) -> None:
        """Frees the slots of a job. From now on its packets are rejected."""
        ...

    def abort_job(self, job: int, code: str, message: str) -> None:
        """Ends a job: from now on the data plane answers the job's packets with this error."""
        ...

    def combine_job(self, job: int, secret: int, shape: JobShape, combine: Combine) -> None:
        """Combines a job's updates on their way to its servers, until `remove_job`.

        Args:
          job: the job.
          secret: its secret.
          shape: its shape.
          combine: whose updates, and where the sums go.

        Raises:
          InvalidArgumentError: this data plane does not combine.
          JobRejectedError: the id is in use, or the job's packets are too large.
        """
        ...

    def serve_part(self, job: int, secret: int, shape: JobShape, serve: Serve) -> None:
        """Sums a part of a job's slots, until `remove_job`.

        Args:
          job: the job.
          secret: its secret.
          shape: its shape.
          serve: which part, and which switches may combine updates on the way here.

        Raises:
          InvalidArgumentError: this data plane has no parts of jobs.
          JobRejectedError: the id is in use, or there is no memory left.
        """
        ...

    def statistics(self) -> dict[str, Any]:
        """Reads the counters.

        Returns:
          ``{"rejected": {kind: packets}, "jobs": {job: counters}, counter: value}``, where ``counters`` of a job are
          ``{"rejected": {kind: packets}, counter: value}``. The outer ``rejected`` counts packets that belong to no
          job.

          ``jaxina status`` shows these counters of a job: ``updates``, ``duplicates`` (retransmissions of updates that
          were counted already), ``packets_sent``, ``bytes_received`` and ``bytes_sent``. Of the whole it shows
          ``socket_overflows`` (packets lost because a socket's buffer was full). A counter that the data plane does not
          have is left out.

          A switch in hardware adds ``"ports": {port: {"up": whether its link is up, counter: value}}``. Of these,
          ``jaxina status`` shows ``packets_received``, ``packets_sent``, ``errors`` (damaged frames),
          ``dropped_at_ingress`` and ``dropped_at_egress`` (because the chip's buffer was full), and
          ``longest_queue_bytes``.
        """
        ...

    def missing(self, job: int) -> list[int]:
        """The workers that at least one slot of the job waits for."""
        ...

    def slots_that_fit(self, shape: JobShape) -> int:
        """How many passes each worker of such a job may have in flight at first.

        With so many, the bursts of all workers together fit the socket buffers. 0 means that it is not known.
        """
        ...

    def connect_queue_pairs(self, job: int, worker: int, end: QueuePairs) -> QueuePairs:
        """Connects a joined worker's queue pairs to queue pairs of this switch.

        Args:
          job: the job.
          worker: the worker's number.
          end: the worker's end, which has passed `QueuePairs.check`.

        Returns:
          The switch's end.

        Raises:
          InvalidArgumentError: this data plane has no RDMA, or the end does not fit it.
        """
        ...


@runtime_checkable
class EncryptingPlane(Protocol):
    """A data plane that can encrypt."""

    def add_encrypted_job(self, job: int, secret: int, shape: JobShape, key: bytes) -> None:
        """Makes the slots of a job whose packets are encrypted; see `DataPlane.add_job`.

        Args:
          job: the job.
          secret: its secret.
          shape: its shape.
          key: its key, 32 random bytes.

        Raises:
          InvalidArgumentError: this host has no libcrypto.
        """
        ...


@runtime_checkable
class RingPlane(Protocol):
    """A data plane for rings of reliable connections between workers."""

    def connect_ring(self, job: int, ends: Sequence[QueuePairs]) -> None:
        """All workers of a job have told their ends, in their order, with one MTU. They send as soon as this returns.

        It may wait for other switches, so it is called on a thread of its own.

        Raises:
          InvalidArgumentError: the ring does not fit this data plane.
          JobRejectedError: one of the connections is part of another ring.
          SwitchUnreachableError: another switch that must know the ring does not answer.
        """
        ...


@runtime_checkable
class RackPlane(Protocol):
    """A data plane between the workers of a rack."""

    def rack_bytes(self, shape: JobShape, rack: RackOfRing) -> int:
        """The bytes of memory that `sum_rack` takes.

        Raises:
          InvalidArgumentError: as `sum_rack`.
        """
        ...

    def sum_rack(self, job: int, shape: JobShape, rack: RackOfRing) -> None:
        """Sums a rack's part of a ring, until `remove_job`.

        Raises:
          InvalidArgumentError: the workers of a rack do not follow each other in the ring, or the ring does not fit.
          JobRejectedError: the id is in use, or one of the connections is part of another ring.
        """
        ...
