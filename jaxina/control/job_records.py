"""What is known about a job of a switch and about its processes, and what can happen to it."""

from __future__ import annotations

import dataclasses

from jaxina.control.job_spec import JobSpec
from jaxina.control.servers import WorkerServer
from jaxina.errors import JaxinaError


@dataclasses.dataclass(eq=False)
class Session:
    """One process in one job."""

    job: int
    ranks: tuple[int, ...]
    host: str
    pid: int
    last_heard: float
    server: WorkerServer | None = None
    statistics: dict[str, int] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        workers = ", ".join(map(str, self.ranks))
        plural = "s" if len(self.ranks) > 1 else ""
        return f"worker{plural} {workers} (host {self.host}, pid {self.pid})"


@dataclasses.dataclass
class Job:
    """A job of the switch.

    Attributes:
      id: its id.
      secret: its secret.
      spec: what was asked for.
      created: when it was made.
      address: the address that asked for it.
      key: of the job's packets, 32 random bytes; empty if they are in the clear.
      members: the session of each worker that has joined, by rank. It keeps those that have left.
      sessions: the sessions that are present.
      aborted: the error that ended the job; None if none has.
    """

    id: int
    secret: int = dataclasses.field(repr=False)
    spec: JobSpec
    created: float
    address: str
    key: bytes = dataclasses.field(repr=False, default=b"")
    members: dict[int, Session] = dataclasses.field(default_factory=dict)
    sessions: set[Session] = dataclasses.field(default_factory=set)
    aborted: JaxinaError | None = None

    @property
    def not_joined(self) -> list[int]:
        """The ranks that no worker has joined with yet."""
        return [rank for rank in range(self.spec.shape.workers) if rank not in self.members]

    @property
    def servers(self) -> tuple[WorkerServer, ...]:
        """The servers of the workers that have joined with one, in the workers' order."""
        return tuple(member.server for _, member in sorted(self.members.items()) if member.server is not None)

    @property
    def pool_bytes(self) -> int:
        return self.spec.shape.pool_bytes

    @property
    def joined(self) -> bool:
        """Whether a worker has joined."""
        return bool(self.members)


@dataclasses.dataclass(frozen=True)
class Ready:
    """All workers have joined. `servers` are their servers, in the workers' order; empty if they have none."""

    job: int
    servers: tuple[WorkerServer, ...] = ()


@dataclasses.dataclass(frozen=True)
class Left:
    """A process left without an error."""

    job: int
    session: Session


@dataclasses.dataclass(frozen=True)
class Aborted:
    """The job has ended with an error for all its workers."""

    job: int
    error: JaxinaError


@dataclasses.dataclass(frozen=True)
class Removed:
    """No worker is left. The data plane can reuse the job's slots."""

    job: int


Effect = Ready | Left | Aborted | Removed
