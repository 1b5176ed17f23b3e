"""What the control service needs of the thing that moves packets: the software switch, or a
hardware one's driver.
"""

from __future__ import annotations

from typing import Any, Protocol


class DataPlane(Protocol):
    """No method waits for the network. Errors are JaxinaErrors and reach the worker that asked."""

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
