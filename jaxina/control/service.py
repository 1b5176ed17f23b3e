"""The gRPC service of a switch: a thin shell around Membership and a DataPlane."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from jaxina.control import control_pb2 as pb
from jaxina.control import control_pb2_grpc
from jaxina.control.data_plane import DataPlane, QueuePairs
from jaxina.control.membership import (
    Aborted,
    Effect,
    Job,
    JobSpec,
    Left,
    Membership,
    Ready,
    Removed,
    Session,
)
from jaxina.control.typed_status import METADATA_KEY, status_of
from jaxina.errors import InvalidArgumentError, JaxinaError

_log = logging.getLogger(__name__)

_EXPIRE_EVERY = 0.1  # seconds
_DIED = "died: its session with the switch broke off"
_JOIN_WITHIN = 10.0  # seconds a new session has for its Join


def _typed(method: Callable[..., Any]) -> Callable[..., Any]:
    """Ends the call with a typed status where the method raises a jaxina error."""

    @functools.wraps(method)
    async def answer(self: Any, request: Any, context: grpc.aio.ServicerContext) -> Any:
        try:
            return await method(self, request, context)
        except JaxinaError as error:
            await _refuse(context, error)

    return answer


class AggregatorService(control_pb2_grpc.AggregatorServicer):
    """Runs in one asyncio loop; every method runs to its next await undisturbed, so the state
    needs no lock.
    """

    def __init__(self, data_plane: DataPlane, clock: Callable[[], float] = time.monotonic):
        self._data_plane = data_plane
        self._clock = clock
        self._membership = Membership()
        self._outboxes: dict[Session, asyncio.Queue[pb.SwitchMessage | None]] = {}
        self._started = clock()

    # ---- the methods of control.proto

    @_typed
    async def CreateJob(
        self, request: pb.CreateJobRequest, context: grpc.aio.ServicerContext
    ) -> pb.CreateJobReply:
        spec = JobSpec(
            request.workers,
            request.slots,
            request.block_size,
            request.blocks_per_chunk,
            request.join_timeout_s,
            request.heartbeat_timeout_s,
        )
        job = self._create(spec)
        _log.info("job %d: created for %d workers, %d slots", job.id, spec.workers, spec.slots)
        terms = self._data_plane.terms
        return pb.CreateJobReply(
            job=job.id,
            secret=job.secret,
            data_ports=self._data_plane.ports,
            whole_chunks=terms.whole_chunks,
            without_checksums=not terms.checksums,
        )

    async def Session(
        self, requests: AsyncIterator[pb.WorkerMessage], context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.SwitchMessage]:
        try:
            session = self._join(await self._first(requests))
        except JaxinaError as error:
            _log.info("join refused: %s", error)
            await _refuse(context, error)
        outbox = self._outboxes[session]
        reader = asyncio.create_task(self._read(session, requests))
        try:
            yield pb.SwitchMessage(joined=pb.Joined())
            while (message := await outbox.get()) is not None:
                yield message
        finally:
            # Here also when the call is cancelled, which is how a broken connection shows.
            reader.cancel()
            self._outboxes.pop(session, None)
            self._perform(self._membership.lost(session, _DIED))

    @_typed
    async def Status(
        self, request: pb.StatusRequest, context: grpc.aio.ServicerContext
    ) -> pb.StatusReply:
        statistics = self._data_plane.statistics()
        now = self._clock()
        return pb.StatusReply(
            uptime_s=now - self._started,
            data_ports=self._data_plane.ports,
            rejected=statistics["rejected"],
            jobs=[
                self._job_status(job, statistics["jobs"].get(job.id, {}), now)
                for job in self._membership.jobs.values()
            ],
        )

    @_typed
    async def WhoIsMissing(
        self, request: pb.WhoIsMissingRequest, context: grpc.aio.ServicerContext
    ) -> pb.WhoIsMissingReply:
        job = self._membership.find(request.job)
        return pb.WhoIsMissingReply(
            not_joined=job.not_joined, awaited=self._data_plane.missing(job.id)
        )

    @_typed
    async def ConnectQueuePairs(
        self, request: pb.ConnectQueuePairsRequest, context: grpc.aio.ServicerContext
    ) -> pb.QueuePairs:
        end = request.worker
        self._membership.check_secret(request.job, request.secret)
        ours = self._data_plane.connect_queue_pairs(
            request.job,
            request.rank,
            QueuePairs(
                end.address,
                end.udp_port,
                end.mtu,
                tuple(end.qpns),
                end.psn,
                end.rkey,
                end.memory,
            ),
        )
        return pb.QueuePairs(**dataclasses.asdict(ours))

    # ---- what happens without being asked

    async def expire_forever(self) -> None:
        """Ends silent sessions and unused jobs, until cancelled."""
        while True:
            await asyncio.sleep(_EXPIRE_EVERY)
            self.expire()

    def expire(self) -> None:
        now = self._clock()
        for session, effects in self._membership.expire(now):
            self._perform(effects)
            self._close(session)
        self._perform(self._membership.expire_unused(now))

    def end_job(self, job_id: int, error: JaxinaError) -> None:
        """For a data plane that has seen why a job cannot go on; nothing if there is no such job."""
        if job_id in self._membership.jobs:
            self._perform(self._membership.end(job_id, error))

    # ---- inside

    def _create(self, spec: JobSpec) -> Job:
        job = self._membership.create(spec, self._clock())
        try:
            self._data_plane.add_job(
                job.id, job.secret, spec.workers, spec.slots, spec.block_size, spec.blocks_per_chunk
            )
        except BaseException:
            del self._membership.jobs[job.id]
            raise
        return job

    async def _first(self, requests: AsyncIterator[pb.WorkerMessage]) -> pb.Join:
        try:
            message = await asyncio.wait_for(anext(aiter(requests)), _JOIN_WITHIN)
        except (StopAsyncIteration, TimeoutError):
            message = pb.WorkerMessage()
        if message.WhichOneof("kind") != "join":
            raise InvalidArgumentError(f"a session begins with a Join, within {_JOIN_WITHIN:g} s")
        return message.join

    def _join(self, join: pb.Join) -> Session:
        session, effects = self._membership.join(
            join.job, join.secret, join.ranks, join.host, join.pid, self._clock()
        )
        _log.info("job %d: %s joined", session.job, session)
        self._outboxes[session] = asyncio.Queue()
        self._perform(effects)
        return session

    async def _read(self, session: Session, requests: AsyncIterator[pb.WorkerMessage]) -> None:
        """Takes a session's messages until it leaves; a stream that just ends is a loss."""
        async for request in requests:
            if request.WhichOneof("kind") == "heartbeat":
                self._membership.heartbeat(
                    session, request.heartbeat.statistics, self._clock()
                )
            elif request.WhichOneof("kind") == "leave":
                self._perform(
                    self._membership.leave(session, request.leave.code, request.leave.message)
                )
                break
        else:
            self._perform(self._membership.lost(session, _DIED))
        self._close(session)

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Ready):
                _log.info("job %d: complete", effect.job)
                self._tell(effect.job, pb.SwitchMessage(ready=pb.Ready()))
            elif isinstance(effect, Left):
                _log.info("job %d: %s left", effect.job, effect.session)
                self._tell(effect.job, pb.SwitchMessage(left=pb.Left(ranks=effect.session.ranks)))
            elif isinstance(effect, Aborted):
                _log.warning("job %d: aborted: %s", effect.job, effect.error)
                self._tell_data_plane(
                    "abort_job", effect.job, effect.error.code, effect.error.message
                )
                self._tell(
                    effect.job,
                    pb.SwitchMessage(
                        aborted=pb.Aborted(code=effect.error.code, message=effect.error.message)
                    ),
                )
            elif isinstance(effect, Removed):
                _log.info("job %d: ended", effect.job)
                self._tell_data_plane("remove_job", effect.job)

    def _tell_data_plane(self, method: str, *arguments: Any) -> None:
        """A data plane that does not answer keeps nobody from hearing the rest."""
        try:
            getattr(self._data_plane, method)(*arguments)
        except JaxinaError as error:
            _log.error("%s%s: %s", method, arguments, error)

    def _tell(self, job: int, message: pb.SwitchMessage) -> None:
        for session, outbox in self._outboxes.items():
            if session.job == job:
                outbox.put_nowait(message)

    def _close(self, session: Session) -> None:
        outbox = self._outboxes.get(session)
        if outbox is not None:
            outbox.put_nowait(None)

    def _job_status(self, job: Job, counters: dict[str, Any], now: float) -> pb.JobStatus:
        awaited = self._data_plane.missing(job.id)
        return pb.JobStatus(
            job=job.id,
            workers=job.spec.workers,
            slots=job.spec.slots,
            block_size=job.spec.block_size,
            blocks_per_chunk=job.spec.blocks_per_chunk,
            members=[
                pb.MemberStatus(
                    rank=rank,
                    host=session.host,
                    pid=session.pid,
                    state="joined" if session in job.sessions else "left",
                    silent_s=now - session.last_heard,
                    statistics=session.statistics,
                )
                for rank, session in sorted(job.members.items())
            ],
            missing=sorted({*job.not_joined, *awaited}),
            aborted=str(job.aborted or ""),
            counters={name: value for name, value in counters.items() if name != "rejected"},
            rejected=counters.get("rejected", {}),
        )


async def _refuse(context: grpc.aio.ServicerContext, error: JaxinaError) -> None:
    """Ends the call with the error; does not return."""
    await context.abort(status_of(error), error.message, ((METADATA_KEY, error.code),))
