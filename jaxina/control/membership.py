"""Which worker belongs to which job, as a state machine.

Requests and the time go in, effects come out. It uses no network and no clock.
"""

from __future__ import annotations

import hmac
import itertools
import secrets
from collections.abc import Container, Mapping, Sequence

from jaxina._native import JOB_KEY_BYTES
from jaxina.control import limits
from jaxina.control.job_records import Aborted, Effect, Job, Left, Ready, Removed, Session
from jaxina.control.job_spec import JobSpec
from jaxina.control.quota import JobQuota, MakingQuota
from jaxina.control.servers import WorkerServer
from jaxina.errors import (
    BY_CODE,
    InvalidArgumentError,
    JaxinaError,
    JobRejectedError,
    MismatchError,
    RankTakenError,
    TooManyWorkersError,
    from_code,
)


class Membership:
    """All jobs of one control service. `now` is any clock's seconds that never go back.

    Attributes:
      jobs: by id.
      draining: whether new jobs are refused.
      making: counts the jobs that are made here. Jobs that the switch only helps with count too.
    """

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.draining = False
        self.making = MakingQuota()
        self._quota = JobQuota(self.making)

    def create(self, spec: JobSpec, address: str, now: float, elsewhere: Container[int] = ()) -> Job:
        """Makes a job, with an id that no other job has, a random secret, and a random key if it needs one.

        Args:
          spec: what is asked for.
          address: where the request comes from.
          now: the time.
          elsewhere: the ids of jobs that others have made, and that the switch helps with.

        Raises:
          JobRejectedError: the switch, or the address, has as many jobs as it may have, or the switch is draining.
        """
        self.check_open()
        self._quota.admit(address, spec.shape.pool_bytes, self.jobs.values(), now)
        # Random, so that nobody can guess the next id and take it first, as that of a job that a switch or server shall
        # help with. Nor does a restarted switch give out the ids of its predecessor.
        job_id = secrets.randbits(32)
        while job_id in self.jobs or job_id in elsewhere:
            job_id = secrets.randbits(32)
        key = secrets.token_bytes(JOB_KEY_BYTES) if spec.encrypt else b""
        job = Job(job_id, secrets.randbits(64), spec, now, address, key)
        self.jobs[job.id] = job
        return job

    def check_open(self) -> None:
        """Checks that the switch takes new jobs.

        Raises:
          JobRejectedError: it is draining.
        """
        if self.draining:
            raise JobRejectedError(
                "this switch is draining: it takes no new jobs, and ends with the last one. Use another switch"
            )

    def find(self, job_id: int) -> Job:
        """Finds a job.

        Raises:
          JobRejectedError: there is no such job.
        """
        job = self.jobs.get(job_id)
        if job is None:
            raise JobRejectedError(
                f"the switch has no job {job_id}: the job has ended, or the switch was restarted. Call "
                "jaxina.shutdown() and jaxina.init() again in every process"
            )
        return job

    def check_secret(self, job_id: int, secret: int) -> None:
        """Checks a job's secret.

        Raises:
          JobRejectedError: there is no such job, or its secret is another.
        """
        expected = self.find(job_id).secret
        if not hmac.compare_digest(expected.to_bytes(8, "big"), secret.to_bytes(8, "big")):
            raise JobRejectedError(f"wrong secret for job {job_id}: the job belongs to another run")

    def job_of_worker(self, job_id: int, secret: int, rank: int) -> Job:
        """Finds a job that a worker is joined to.

        Raises:
          JobRejectedError: there is no such job, its secret is another, or the worker is not joined to it.
          JaxinaError: the error that the job was aborted with.
        """
        self.check_secret(job_id, secret)
        job = self.find(job_id)
        if job.aborted is not None:
            raise job.aborted
        if job.members.get(rank) not in job.sessions:
            raise JobRejectedError(
                f"worker {rank} is not joined to job {job_id}: a worker must join before it connects"
            )
        return job

    def join(
        self,
        job_id: int,
        secret: int,
        ranks: Sequence[int],
        host: str,
        pid: int,
        now: float,
        server: WorkerServer | None = None,
    ) -> tuple[Session, list[Effect]]:
        """Joins a process to a job.

        Args:
          job_id: the job.
          secret: the job's secret.
          ranks: the process's workers.
          host: the process's host, for messages.
          pid: the process's id, for messages.
          now: the time.
          server: the process's server, if it has one.

        Returns:
          The process's session, and the effects.

        Raises:
          JobRejectedError: there is no such job, or its secret is another.
          InvalidArgumentError: there are no ranks, or one comes twice, or the server's address is none.
          MismatchError: this process has a server and another has none, or the other way round.
          TooManyWorkersError: a rank is beyond the job's size.
          RankTakenError: another process has joined with one of the ranks.
          JaxinaError: the error that the job was aborted with.
        """
        job = self.find(job_id)
        self.check_secret(job_id, secret)
        if job.aborted is not None:
            raise job.aborted
        if not ranks or len(set(ranks)) != len(ranks):
            raise InvalidArgumentError(
                f"a process must join with at least one rank, and each once, not {list(ranks[:16])}"
            )
        host = host[: limits.MAX_HOST]
        if max(ranks) >= job.spec.shape.workers:
            raise TooManyWorkersError(
                f"worker {max(ranks)} (host {host}, pid {pid}) wants to join job {job_id}, which is for "
                f"{job.spec.shape.workers} workers, numbered from 0: start as many processes as the job was made for"
            )
        taken = [rank for rank in ranks if rank in job.members]
        if taken:
            raise RankTakenError(
                f"rank {taken[0]} of job {job_id} is taken by {job.members[taken[0]]}; host {host}, pid {pid} claims "
                "it too: give each process its own rank"
            )
        if server is not None:
            server.check()
        session = Session(job_id, tuple(ranks), host, pid, now, server)
        for other in job.members.values():
            if (other.server is None) != (server is None):
                raise MismatchError(
                    f"{session} and {other} want to sum at different places: give all the same aggregator"
                )
        job.sessions.add(session)
        for rank in ranks:
            job.members[rank] = session
        return session, [] if job.not_joined else [Ready(job_id, job.servers)]

    def heartbeat(self, session: Session, statistics: Mapping[str, int], now: float) -> None:
        """Notes that a session is alive, and a limited number of its statistics."""
        session.last_heard = now
        named = ((name, statistics[name]) for name in sorted(statistics) if len(name) <= limits.MAX_NAME)
        session.statistics = dict(itertools.islice(named, limits.MAX_STATISTICS))

    def leave(self, session: Session, code: str, message: str) -> list[Effect]:
        """Ends a session at its worker's request.

        If `code` is empty, the worker leaves without an error. Otherwise the job ends with the error that the code
        names, or with WORKER_LOST if there is no such error.
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
        """Ends a session that was lost: its stream ended without a Leave, or it was silent or misbehaved.

        The job ends with WORKER_LOST. `how` says what happened, to follow the worker's name.
        """
        job = self.jobs.get(session.job)
        if job is None or session not in job.sessions:
            return []
        return self.end(session.job, from_code("WORKER_LOST", f"{session} {how}")) + self._drop(session)

    def expire(self, now: float) -> list[tuple[Session, list[Effect]]]:
        """Ends sessions that have been silent too long. Returns each with the effects of its end."""
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
        """Drops jobs that no worker joined in time."""
        unused = [
            job.id
            for job in self.jobs.values()
            if not job.joined and now - job.created > min(job.spec.join_timeout, limits.UNJOINED_LIFE)
        ]
        for job_id in unused:
            del self.jobs[job_id]
        return [Removed(job_id) for job_id in unused]

    def end(self, job_id: int, error: JaxinaError) -> list[Effect]:
        """Ends the job with an error for all its processes. Does nothing if it has ended already."""
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
