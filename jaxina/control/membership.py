"""Who belongs to which job, as a state machine: requests and the time go in, effects come out. No
network, no clock.
"""

from __future__ import annotations

import dataclasses
import hmac
import itertools
import secrets
from collections.abc import Mapping, Sequence

from jaxina.control import limits
from jaxina.control.job_spec import JobSpec
from jaxina.control.quota import JobQuota
from jaxina.errors import (
    BY_CODE,
    InvalidArgumentError,
    JaxinaError,
    JobRejectedError,
    RankTakenError,
    TooManyWorkersError,
    from_code,
)


@dataclasses.dataclass(eq=False)
class Session:
    """One process in one job."""

    job: int
    ranks: tuple[int, ...]
    host: str
    pid: int
    last_heard: float
    statistics: dict[str, int] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        workers = ", ".join(map(str, self.ranks))
        plural = "s" if len(self.ranks) > 1 else ""
        return f"worker{plural} {workers} (host {self.host}, pid {self.pid})"


@dataclasses.dataclass
class Job:
    id: int
    secret: int = dataclasses.field(repr=False)
    spec: JobSpec
    created: float
    address: str  # whence it was made
    members: dict[int, Session] = dataclasses.field(default_factory=dict)  # by rank, those that left included
    sessions: set[Session] = dataclasses.field(default_factory=set)  # present ones
    aborted: JaxinaError | None = None

    @property
    def not_joined(self) -> list[int]:
        return [rank for rank in range(self.spec.shape.workers) if rank not in self.members]

    @property
    def pool_bytes(self) -> int:
        return self.spec.shape.pool_bytes

    @property
    def joined(self) -> bool:
        """Whether somebody has joined."""
        return bool(self.members)


@dataclasses.dataclass(frozen=True)
class Ready:
    """All workers have joined."""

    job: int


@dataclasses.dataclass(frozen=True)
class Left:
    """A process left in order."""

    job: int
    session: Session


@dataclasses.dataclass(frozen=True)
class Aborted:
    """The job has ended for all."""

    job: int
    error: JaxinaError


@dataclasses.dataclass(frozen=True)
class Removed:
    """Nobody is left; the job's place can be reused."""

    job: int


Effect = Ready | Left | Aborted | Removed


class Membership:
    """All jobs of one aggregator. `now` is any clock's seconds that never go back."""

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self._quota = JobQuota()
        self._last_id = secrets.randbits(16)  # so that ids of a restarted switch are not those of its predecessor

    def create(self, spec: JobSpec, address: str, now: float) -> Job:
        """A new job, asked for from `address`, with an id and a secret that no earlier incarnation
        had.

        Raises:
          TooManyWorkersError, InvalidArgumentError: the job cannot work.
          JobRejectedError: the switch, or the address, has as many jobs as it can.
        """
        self._quota.admit(address, spec.shape.pool_bytes, self.jobs.values(), now)
        self._last_id = (self._last_id + 1) % 2**32
        while self._last_id in self.jobs:
            self._last_id = (self._last_id + 1) % 2**32
        job = Job(self._last_id, secrets.randbits(64), spec, now, address)
        self.jobs[job.id] = job
        return job

    def find(self, job_id: int) -> Job:
        """Raises JobRejectedError if there is no such job."""
        job = self.jobs.get(job_id)
        if job is None:
            raise JobRejectedError(
                f"the switch has no job {job_id}: it has ended, or the switch was restarted. Call "
                "jaxina.shutdown() and "
                "jaxina.init() again in every process"
            )
        return job

    def check_secret(self, job_id: int, secret: int) -> None:
        """Raises JobRejectedError if there is no such job, or its secret is another."""
        expected = self.find(job_id).secret
        if not hmac.compare_digest(expected.to_bytes(8, "big"), secret.to_bytes(8, "big")):
            raise JobRejectedError(f"wrong secret for job {job_id}: it belongs to another run")

    def job_of_worker(self, job_id: int, secret: int, rank: int) -> Job:
        """The job, if this worker of it is joined.

        Raises:
          JobRejectedError: no such job, another secret, or the worker is not joined.
          JaxinaError: what the job was aborted with.
        """
        self.check_secret(job_id, secret)
        job = self.find(job_id)
        if job.aborted is not None:
            raise job.aborted
        if job.members.get(rank) not in job.sessions:
            raise JobRejectedError(f"worker {rank} is not joined to job {job_id}: only a worker that is may connect")
        return job

    def join(
        self, job_id: int, secret: int, ranks: Sequence[int], host: str, pid: int, now: float
    ) -> tuple[Session, list[Effect]]:
        """Raises JobRejectedError, TooManyWorkersError, RankTakenError, or what the job was
        aborted with.
        """
        job = self.find(job_id)
        self.check_secret(job_id, secret)
        if job.aborted is not None:
            raise job.aborted
        if not ranks or len(set(ranks)) != len(ranks):
            raise InvalidArgumentError(f"a process joins with distinct ranks, not {list(ranks[:16])}")
        host = host[: limits.MAX_HOST]
        if max(ranks) >= job.spec.shape.workers:
            raise TooManyWorkersError(
                f"worker {max(ranks)} (host {host}, pid {pid}) wants to join job {job_id}, which "
                "is for "
                f"{job.spec.shape.workers} workers, numbered from 0: start as many processes as the job "
                "was made for"
            )
        taken = [rank for rank in ranks if rank in job.members]
        if taken:
            raise RankTakenError(
                f"rank {taken[0]} of job {job_id} is taken by {job.members[taken[0]]}; host "
                f"{host}, pid {pid} claims it "
                "too: give each process its own rank"
            )
        session = Session(job_id, tuple(ranks), host, pid, now)
        job.sessions.add(session)
        for rank in ranks:
            job.members[rank] = session
        return session, [] if job.not_joined else [Ready(job_id)]

    def heartbeat(self, session: Session, statistics: Mapping[str, int], now: float) -> None:
        session.last_heard = now
        named = ((name, statistics[name]) for name in sorted(statistics) if len(name) <= limits.MAX_NAME)
        session.statistics = dict(itertools.islice(named, limits.MAX_STATISTICS))

    def leave(self, session: Session, code: str, message: str) -> list[Effect]:
        """An orderly end if `code` is empty, else the end of the job with that error, or as a lost
        worker if there is no such error.
        """
        if code:
            message = message[: limits.MAX_TEXT]
            error = from_code(
                code if code in BY_CODE else "WORKER_LOST",
                f"{session}: {message}" if message else str(session),
            )
            return self.end(session.job, error) + self._drop(session)
        return [Left(session.job, session), *self._drop(session)]

    def lost(self, session: Session, how: str) -> list[Effect]:
        """The session's stream ended without a Leave."""
        job = self.jobs.get(session.job)
        if job is None or session not in job.sessions:
            return []
        return self.end(session.job, from_code("WORKER_LOST", f"{session} {how}")) + self._drop(session)

    def expire(self, now: float) -> list[tuple[Session, list[Effect]]]:
        """Ends silent sessions, and returns each with what follows from its end."""
        ended = []
        for job in list(self.jobs.values()):
            for session in list(job.sessions):
                silent = now - session.last_heard
                if silent > job.spec.heartbeat_timeout:
                    allowed = job.spec.heartbeat_timeout
                    how = f"has been silent for {silent:.1f} s (heartbeat timeout {allowed:g} s)"
                    ended.append((session, self.lost(session, how)))
        return ended

    def expire_unused(self, now: float) -> list[Effect]:
        """Drops jobs that nobody joined in time."""
        unused = [
            job.id
            for job in self.jobs.values()
            if not job.joined and now - job.created > min(job.spec.join_timeout, limits.UNJOINED_LIFE)
        ]
        for job_id in unused:
            del self.jobs[job_id]
        return [Removed(job_id) for job_id in unused]

    def end(self, job_id: int, error: JaxinaError) -> list[Effect]:
        """Ends the job for all its processes; nothing if it has ended already."""
        job = self.jobs[job_id]
        if job.aborted is not None:
            return []
        job.aborted = error
        return [Aborted(job_id, error)]

    def _drop(self, session: Session) -> list[Effect]:
        job = self.jobs[session.job]
        job.sessions.discard(session)
        if job.sessions:
            return []
        del self.jobs[job.id]
        return [Removed(job.id)]
