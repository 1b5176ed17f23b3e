"""Makes a switch's replies about its own state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from jaxina.control import control_pb2 as pb
from jaxina.control import limits
from jaxina.control.assisted_jobs import AssistedJobs
from jaxina.control.cached_answers import CachedAnswers
from jaxina.control.data_plane import DataPlane
from jaxina.control.job_records import Job


class StatusReplies:
    """Makes replies to Status and WhoIsMissing. However often they are asked for, they cost the data plane little."""

    def __init__(self, data_plane: DataPlane, clock: Callable[[], float], ask_every: float, upstream: str):
        self._data_plane = data_plane
        self._upstream = upstream
        self._clock = clock
        self._started = clock()
        self._answers = CachedAnswers(clock, ask_every)

    def status(self, jobs: Iterable[Job], assisted: AssistedJobs, draining: bool) -> pb.StatusReply:
        """Makes the reply to Status. It may be a moment old; `uptime_s` tells of which time it is."""
        return self._answers.ask("status", lambda: self._looked_up(list(jobs), assisted, draining))

    def awaited(self, job: Job) -> list[int]:
        """The workers that at least one slot of the job waits for, or did a moment ago."""
        return self._answers.ask(_missing(job.id), lambda: self._data_plane.missing(job.id), [])

    def forget(self, job_id: int) -> None:
        """Drops the answers about a job that has ended."""
        self._answers.forget(_missing(job_id))

    def _looked_up(self, jobs: list[Job], assisted: AssistedJobs, draining: bool) -> pb.StatusReply:
        statistics = self._data_plane.statistics()
        now = self._clock()
        listed = _listed(jobs)
        # There may not be time to ask about all jobs, so those that were asked about longest ago come first.
        by_age = sorted(listed.values(), key=lambda job: self._answers.asked_at(_missing(job.id)))
        awaited = {job.id: self.awaited(job) for job in by_age}
        reply = pb.StatusReply(
            uptime_s=now - self._started,
            data_ports=self._data_plane.ports,
            rejected=statistics["rejected"],
            counters={n: value for n, value in statistics.items() if isinstance(value, int)},
            assisted=assisted.status(statistics["jobs"]),
            upstream=self._upstream,
            draining=draining,
            ports=[_port(number, counters) for number, counters in sorted(statistics.get("ports", {}).items())],
        )
        for job in jobs:
            told = _brief(job, statistics["jobs"].get(job.id, {}))
            if job.id in listed:
                told.members.extend(_members(job, now))
                told.missing.extend(sorted({*job.not_joined, *awaited[job.id]}))
            else:
                told.brief = True
            reply.jobs.append(told)
        return reply


def _missing(job_id: int) -> tuple[str, int]:
    return ("missing", job_id)


def _listed(jobs: list[Job]) -> dict[int, Job]:
    """The jobs whose workers are listed in a reply: the oldest ones, as many as it has room for."""
    listed, room = {}, limits.LISTED_WORKERS
    for job in jobs:
        if job.spec.shape.workers <= room:
            listed[job.id] = job
            room -= job.spec.shape.workers
    return listed


def _brief(job: Job, counters: dict[str, Any]) -> pb.JobStatus:
    return pb.JobStatus(
        job=job.id,
        workers=job.spec.shape.workers,
        slots=job.spec.shape.slots,
        block_size=job.spec.shape.block_size,
        blocks_per_chunk=job.spec.shape.blocks_per_chunk,
        present=sum(len(session.ranks) for session in job.sessions),
        absent=job.spec.shape.workers - len(job.members),
        aborted=str(job.aborted or ""),
        counters={name: value for name, value in counters.items() if name != "rejected"},
        rejected=counters.get("rejected", {}),
    )


def _port(number: int, counters: dict[str, int]) -> pb.PortStatus:
    up = counters["up"]
    return pb.PortStatus(port=number, up=bool(up), counters={n: value for n, value in counters.items() if n != "up"})


def _members(job: Job, now: float) -> list[pb.MemberStatus]:
    return [
        pb.MemberStatus(
            rank=rank,
            host=session.host,
            pid=session.pid,
            state="joined" if session in job.sessions else "left",
            silent_s=now - session.last_heard,
            statistics=session.statistics if rank == session.ranks[0] else {},
        )
        for rank, session in sorted(job.members.items())
    ]
