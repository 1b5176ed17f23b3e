"""The jobs that a switch helps with but did not make: see `jaxina.control.roles`."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from jaxina._native import JobShape
from jaxina.control import control_pb2 as pb
from jaxina.control import limits, roles
from jaxina.control.data_plane import DataPlane, RackPlane
from jaxina.control.quota import MakingQuota
from jaxina.errors import InvalidArgumentError, JobRejectedError


@dataclasses.dataclass(frozen=True)
class _Assisted:
    workers: int
    role: str
    asker: str
    memory: int  # bytes


class AssistedJobs:
    """The jobs of the Assist calls that are open.

    Args:
      data_plane: what moves the packets.
      making: counts the jobs that are made at the switch.
    """

    def __init__(self, data_plane: DataPlane, making: MakingQuota):
        self._data_plane = data_plane
        self._making = making
        self._jobs: dict[int, _Assisted] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job: object) -> bool:
        return job in self._jobs

    @contextlib.contextmanager
    def assist(self, request: pb.AssistRequest, asker: str, now: float) -> Iterator[pb.Assisting]:
        """Has the data plane help with a job while the context lasts.

        Args:
          request: what to do.
          asker: the address that asks.
          now: the time, in any clock's seconds that never go back.

        Yields:
          The reply.

        Raises:
          InvalidArgumentError: the request cannot be fulfilled.
          JobRejectedError: the switch has a job with this id, or no room, or the address has made too much lately.
        """
        shape = JobShape(
            devices=request.devices,
            workers=request.workers,
            slots=request.slots,
            block_size=request.block_size,
            blocks_per_chunk=request.blocks_per_chunk,
        )
        role = request.WhichOneof("role")
        if role == "combine":
            combine = roles.Combine.read(request.combine, shape.workers)
            memory = self._admit(0, combine.contacts, asker, now)
            self._data_plane.combine_job(request.job, request.secret, shape, combine)
            what = combine.described(shape.workers)
        elif role == "serve":
            serve = roles.Serve.read(request.serve, shape.workers)
            memory = self._admit(shape.pool_bytes, serve.contacts(shape.workers), asker, now)
            self._data_plane.serve_part(request.job, request.secret, shape, serve)
            what = serve.described()
        elif role == "rack":
            rack = roles.RackOfRing.read(request.rack, shape.workers)
            if not isinstance(self._data_plane, RackPlane):
                raise InvalidArgumentError(
                    "this switch is not on the way between the workers of a rack: start it with --transparent"
                )
            memory = self._admit(self._data_plane.rack_bytes(shape, rack), 0, asker, now)
            self._data_plane.sum_rack(request.job, shape, rack)
            what = rack.described()
        else:
            raise InvalidArgumentError("a request for assistance says what to do: combine, serve or sum a rack")
        self._jobs[request.job] = _Assisted(shape.workers, what, asker, memory)
        try:
            yield pb.Assisting(data_ports=self._data_plane.ports, first_window=self._data_plane.slots_that_fit(shape))
        finally:
            del self._jobs[request.job]
            self._data_plane.remove_job(request.job)

    def _admit(self, pool_bytes: int, contacts: int, asker: str, now: float) -> int:
        """Counts one more job of the address. Returns the bytes that the data plane's threads need for its pool, and to
        keep so many addresses each."""
        memory = pool_bytes + contacts * limits.CONTACT_BYTES * len(self._data_plane.ports)
        taken = sum(job.memory for job in self._jobs.values() if job.asker == asker)
        if taken + memory > limits.POOL_PER_ADDRESS:
            raise JobRejectedError(
                f"{asker} has parts of jobs here with {taken >> 20} MiB; with this one, they would have more than the "
                f"{limits.POOL_PER_ADDRESS >> 20} MiB that one address may have: lower the slots or the chunk"
            )
        self._making.take(asker, memory, now)
        return memory

    def status(self, statistics: Mapping[int, Mapping[str, Any]]) -> list[pb.AssistStatus]:
        """The jobs, with the data plane's counters of them."""
        return [
            pb.AssistStatus(
                **{"from": job.asker},
                job=number,
                workers=job.workers,
                role=job.role,
                counters={n: value for n, value in statistics.get(number, {}).items() if n != "rejected"},
                rejected=statistics.get(number, {}).get("rejected", {}),
            )
            for number, job in sorted(self._jobs.items())
        ]
