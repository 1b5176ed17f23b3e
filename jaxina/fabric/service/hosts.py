"""Who takes part in a job, and what is on the way to whom."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from jaxina.errors import InvalidArgumentError, JaxinaError, JobRejectedError, RankTakenError, TooManyWorkersError
from jaxina.fabric.service import fabric_pb2 as pb
from jaxina.fabric.service.settings import JobSettings, host_of

MAX_ELEMENTS = 1 << 34


@dataclasses.dataclass(slots=True)
class Host:
    """A process that has joined.

    Attributes:
      number: no other process of the job has had it. The upper half of its updates' names.
      name: of its place: "worker-0", ..., "server" or "replica".
      role: what it does.
      address: HOST:PORT at which it takes frames.
      failed: the error that makes it leave, if one does.
    """

    number: int
    name: str
    role: pb.Role.ValueType
    address: str
    failed: JaxinaError | None = None


class Hosts:
    """The hosts of a job. A worker's place is free again once its process is gone.

    Attributes:
      outbox: messages that wait to be sent, with the number of the host.
    """

    def __init__(self, settings: JobSettings) -> None:
        self._settings = settings
        self._by_name: dict[str, Host] = {}
        self._next = 1
        self.outbox: list[tuple[int, pb.SchedulerMessage]] = []

    def __iter__(self) -> Iterator[Host]:
        return iter(list(self._by_name.values()))

    def find(self, name: str) -> Host | None:
        """The process at a place, if there is one."""
        return self._by_name.get(name)

    def owner(self, update: int) -> Host | None:
        """The process that made an update's name, if it is still there."""
        return next((host for host in self._by_name.values() if host.number == update >> 32), None)

    def add(self, join: pb.Join) -> Host:
        """A process joins.

        Raises:
          TooManyWorkersError: its rank is beyond the job's size.
          RankTakenError: there is one at its place.
          JobRejectedError: the job has no replica.
          InvalidArgumentError: its server has no model.
        """
        if join.role == pb.WORKER and join.rank >= self._settings.workers:
            raise TooManyWorkersError(f"worker {join.rank} joins a job of {self._settings.workers} workers")
        if join.role == pb.REPLICA and self._settings.divergence_bound is None:
            raise JobRejectedError("the job has no replica: start the scheduler with --divergence-bound")
        if join.role == pb.SERVER and not 1 <= join.elements <= MAX_ELEMENTS:
            raise InvalidArgumentError(f"a model of {join.elements} elements is not possible")
        name = host_of(join.role, join.rank)
        if name in self._by_name:
            raise RankTakenError(f"there is a {name} already, at {self._by_name[name].address}")
        host = Host(self._next, name, join.role, join.address)
        self._next += 1
        self._by_name[name] = host
        return host

    def remove(self, host: Host) -> None:
        """A process is gone."""
        del self._by_name[host.name]

    def tell(self, host: Host | None, **message: object) -> None:
        """Puts a message into the outbox. To a host that is gone it is left out."""
        if host is not None:
            self.outbox.append((host.number, pb.SchedulerMessage(**message)))  # type: ignore[arg-type]
