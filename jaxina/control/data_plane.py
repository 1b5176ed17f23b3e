"""What the control service needs of the thing that moves packets: the software switch, or a
hardware one's driver.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol


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

    def add_job(
        self,
        job: int,
        secret: int,
        workers: int,
        slots: int,
        block_size: int,
        blocks_per_chunk: int,
    ) -> None: ...

    def remove_job(self, job: int) -> None: ...

    def abort_job(self, job: int, code: str, message: str) -> None:
        """From now on answers the job's packets with this error."""
        ...

    def statistics(self) -> dict[str, Any]:
        """{"rejected": {kind: packets}, "jobs": {job: {counter: value, "rejected": {kind: packets}}}}.

        The outer `rejected` counts packets that belong to no job. Counters that `jaxina status`
        shows: updates, duplicates (retransmissions of updates that were counted already),
        packets_sent, bytes_received, bytes_sent.
        """
        ...

    def missing(self, job: int) -> list[int]:
        """Workers that some slot waits for."""
        ...

    def connect_queue_pairs(self, job: int, worker: int, end: QueuePairs) -> QueuePairs:
        """Gives a worker of the job queue pairs of this switch.

        Raises:
          InvalidArgumentError: there is no RDMA here, or the end does not fit the job.
        """
        ...
