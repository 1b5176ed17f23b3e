"""The gRPC service of a switch, or of a job's first process: a thin shell around Membership and a DataPlane."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from jaxina._native import JobShape
from jaxina.control import control_pb2 as pb
from jaxina.control import control_pb2_grpc, limits
from jaxina.control.assisted_jobs import AssistedJobs
from jaxina.control.data_plane import DataPlane, EncryptingPlane, QueuePairs
from jaxina.control.effects import Effects, Outboxes
from jaxina.control.entrance import Entrance
from jaxina.control.first_message import first_message
from jaxina.control.job_records import Job
from jaxina.control.job_records import Session as JobSession
from jaxina.control.job_spec import JobSpec
from jaxina.control.membership import Membership
from jaxina.control.peer import address_of
from jaxina.control.quota import ConnectQuota, OpenLimit
from jaxina.control.ring_meetings import RingMeetings
from jaxina.control.servers import WorkerServer
from jaxina.control.status_reply import StatusReplies
from jaxina.control.typed_status import refuse
from jaxina.errors import InvalidArgumentError, JaxinaError, JobRejectedError

_log = logging.getLogger(__name__)

_EXPIRE_EVERY = 0.1  # seconds
_STALLED = 1.0  # seconds
_DIED = "died: its session broke off"
_ROLES = frozenset(field.name for field in pb.AssistRequest.DESCRIPTOR.oneofs_by_name["role"].fields)


def _typed(method: Callable[..., Any]) -> Callable[..., Any]:
    """Counts the call against the caller's quota. Ends it with a typed status if the method raises a jaxina error."""

    @functools.wraps(method)
    async def answer(self: Any, request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        try:
            self._entrance.calls.take(address_of(context.peer()), self._clock())
            return await method(self, request, context)
        except JaxinaError as error:
            await refuse(context, error)

    return answer


class AggregatorService(control_pb2_grpc.AggregatorServicer):
    """The service's methods.

    They all run in one asyncio loop. Each runs to its next await without interruption, so the state needs no lock.

    Args:
      data_plane: what moves the packets.
      clock: seconds that never go back.
      ask_every: the least time between two questions to the data plane about its state, in seconds.
      upstream: the control address of the switch that this one is below; empty if there is none.
      secure: whether calls are encrypted.
    """

    def __init__(
        self,
        data_plane: DataPlane,
        clock: Callable[[], float] = time.monotonic,
        ask_every: float = limits.ASK_EVERY,
        upstream: str = "",
        secure: bool = False,
    ):
        self._data_plane = data_plane
        self._secure = secure
        self._clock = clock
        self._membership = Membership()
        self._on_drained: Callable[[], Any] = lambda: None
        self._outboxes = Outboxes()
        self._replies = StatusReplies(data_plane, clock, ask_every, upstream)
        self._entrance = Entrance("sessions")
        self._connects = ConnectQuota()
        self._rings = RingMeetings(data_plane)
        self._assisted = AssistedJobs(data_plane, self._membership.making)
        self._effects = Effects(data_plane, self._outboxes, self._replies, self._connects, self._rings)
        self._assists = OpenLimit("assisted jobs", limits.ASSISTED_PER_ADDRESS, limits.MAX_ASSISTED)

    # ---- the methods of control.proto

    @_typed
    async def CreateJob(
        self, request: pb.CreateJobRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.CreateJobReply:
        terms = self._data_plane.terms
        whole_chunks = terms.whole_chunks or request.whole_chunks
        shape = JobShape(
            devices=request.devices,
            workers=request.workers,
            slots=request.slots,
            block_size=request.block_size,
            blocks_per_chunk=request.blocks_per_chunk,
            whole_chunks=whole_chunks,
        )
        spec = JobSpec(shape, request.join_timeout_s, request.heartbeat_timeout_s, request.encrypt)
        job = self._create(spec, address_of(context.peer()))
        _log.info("job %d: created for %d workers, %d slots", job.id, shape.workers, shape.slots)
        return pb.CreateJobReply(
            job=job.id,
            secret=job.secret,
            data_ports=self._data_plane.ports,
            whole_chunks=whole_chunks,
            without_checksums=not terms.checksums,
            first_window=self._data_plane.slots_that_fit(shape),
            encrypted=spec.encrypt,
        )

    async def Session(
        self, requests: AsyncIterator[pb.WorkerMessage], context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pb.SwitchMessage]:
        address = address_of(context.peer())
        with contextlib.ExitStack() as inside:
            try:
                what = "a session begins with a Join"
                join = await self._entrance.let_in(requests, address, self._clock(), what, inside)
                session = self._join(join)
            except JaxinaError as error:
                _log.debug("join refused: %s", error)
                await refuse(context, error)
            outbox = self._outboxes[session]
            reader = asyncio.create_task(self._read(session, requests))
            try:
                yield pb.SwitchMessage(joined=pb.Joined())
                while (message := await outbox.get()) is not None:
                    yield message
            finally:
                # A broken connection cancels the call, which ends up here too.
                reader.cancel()
                self._outboxes.drop(session)
                self._effects.perform(self._membership.lost(session, _DIED))

    @_typed
    async def Status(self, request: pb.StatusRequest, context: grpc.aio.ServicerContext[Any, Any]) -> pb.StatusReply:
        return self.status()

    @_typed
    async def WhoIsMissing(
        self, request: pb.WhoIsMissingRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.WhoIsMissingReply:
        self._membership.check_secret(request.job, request.secret)
        job = self._membership.find(request.job)
        return pb.WhoIsMissingReply(not_joined=job.not_joined, awaited=self._replies.awaited(job))

    @_typed
    async def GetKey(self, request: pb.GetKeyRequest, context: grpc.aio.ServicerContext[Any, Any]) -> pb.GetKeyReply:
        self._membership.check_secret(request.job, request.secret)
        key = self._membership.find(request.job).key
        if not key:
            raise JobRejectedError(f"the packets of job {request.job} are not encrypted, so it has no key")
        return pb.GetKeyReply(key=key)

    @_typed
    async def ConnectQueuePairs(
        self, request: pb.ConnectQueuePairsRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.QueuePairs:
        spec = self._membership.job_of_worker(request.job, request.secret, request.rank).spec
        theirs = QueuePairs.told(request.worker)
        theirs.check(spec.shape.slots)
        self._connects.take(request.job, spec.shape.workers, self._clock())
        ours = self._data_plane.connect_queue_pairs(request.job, request.rank, theirs)
        return pb.QueuePairs(**dataclasses.asdict(ours))

    @_typed
    async def ConnectRing(
        self, request: pb.ConnectQueuePairsRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.RingNeighbours:
        spec = self._membership.job_of_worker(request.job, request.secret, request.rank).spec
        end = QueuePairs.told(request.worker)
        end.check_in_ring()
        self._connects.take(request.job, spec.shape.workers, self._clock())
        following, previous = await self._rings.meet(request.job, spec.shape.workers, request.rank, end)
        return pb.RingNeighbours(
            next=pb.QueuePairs(**dataclasses.asdict(following)), previous=pb.QueuePairs(**dataclasses.asdict(previous))
        )

    async def Assist(
        self, requests: AsyncIterator[pb.AssistRequest], context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pb.Assisting]:
        address = address_of(context.peer())
        with contextlib.ExitStack() as inside:
            try:
                self._entrance.calls.take(address, self._clock())
                inside.enter_context(self._assists.one_more(address))
                with self._entrance.waiting.one_more(address):
                    request = await first_message(
                        requests,
                        "role",
                        _ROLES,
                        "a request for assistance begins with a role, in a message",
                        limits.MAX_ASSIST_BYTES,
                    )
                self._membership.check_open()
                reply = inside.enter_context(self._assisted.assist(request, address, self._clock()))
            except JaxinaError as error:
                _log.debug("assistance refused: %s", error)
                await refuse(context, error)
            _log.info("job %d of %s: %s", request.job, address, request.WhichOneof("role"))
            yield reply
            async for _ in requests:  # none comes; the stream ends when the job does, or its first process dies
                break
            _log.info("job %d of %s: ended", request.job, address)

    # ---- what happens without a call

    def status(self) -> pb.StatusReply:
        """What the switch is doing."""
        return self._replies.status(self._membership.jobs.values(), self._assisted, self._membership.draining)

    async def expire_forever(self) -> None:
        """Calls `expire` regularly, until cancelled."""
        while True:
            began = self._clock()
            await asyncio.sleep(_EXPIRE_EVERY)
            # If this process was stopped meanwhile, it has not read what the workers sent. It reads that first.
            if self._clock() - began < _STALLED:
                self.expire()

    def expire(self) -> None:
        """Ends sessions that have been silent too long, and jobs that nobody joined in time."""
        now = self._clock()
        for session, effects in self._membership.expire(now):
            self._effects.perform(effects)
            self._outboxes.close(session)
        self._effects.perform(self._membership.expire_unused(now))
        if self._membership.draining and not self._membership.jobs and not len(self._assisted):
            self._on_drained()

    def end_job(self, job_id: int, error: JaxinaError) -> None:
        """Ends a job. A data plane calls it when it finds that the job cannot go on. Unknown jobs are ignored."""
        if job_id in self._membership.jobs:
            self._effects.perform(self._membership.end(job_id, error))

    def drain(self, on_drained: Callable[[], Any]) -> None:
        """Takes no more jobs. Calls `on_drained` when there is no job any more, perhaps several times."""
        self._membership.draining = True
        self._on_drained = on_drained

    def end_all(self, error: JaxinaError) -> None:
        """Ends all jobs, because the switch stops."""
        for job_id in list(self._membership.jobs):
            self.end_job(job_id, error)

    # ---- inside

    def _create(self, spec: JobSpec, address: str) -> Job:
        job = self._membership.create(spec, address, self._clock(), self._assisted)
        try:
            if spec.encrypt:
                self._encrypting_plane().add_encrypted_job(job.id, job.secret, spec.shape, job.key)
            else:
                self._data_plane.add_job(job.id, job.secret, spec.shape)
        except BaseException:
            del self._membership.jobs[job.id]
            raise
        return job

    def _encrypting_plane(self) -> EncryptingPlane:
        if not self._secure:
            raise InvalidArgumentError(
                "this switch does not use TLS, so the keys of encrypted packets would travel in the clear: start it "
                "with JAXINA_TLS_AUTHORITY, JAXINA_TLS_CERTIFICATE and JAXINA_TLS_KEY, and set them at the workers too"
            )
        if not isinstance(self._data_plane, EncryptingPlane):
            raise InvalidArgumentError(
                "this switch cannot encrypt: only the software switch can, with aggregator='udp'. A chip adds what it "
                "reads in packets. Use `jaxina switch` on a host, or leave JAXINA_ENCRYPTION out in all processes"
            )
        return self._data_plane

    def _join(self, join: pb.Join) -> JobSession:
        server = None
        if join.HasField("server"):
            server = WorkerServer(join.server.host, join.server.port, join.server.room)
        session, effects = self._membership.join(
            join.job, join.secret, join.ranks, join.host, join.pid, self._clock(), server
        )
        _log.info("job %d: %s joined", session.job, session)
        self._outboxes.open(session)
        self._effects.perform(effects)
        return session

    async def _read(self, session: JobSession, requests: AsyncIterator[pb.WorkerMessage]) -> None:
        """Reads a session's messages until the worker leaves. A stream that ends without Leave means a lost worker."""
        async for request in requests:
            if (size := request.ByteSize()) > limits.MAX_SESSION_BYTES:
                self._effects.perform(self._membership.lost(session, f"sent a message of {size} bytes"))
                break
            if request.WhichOneof("kind") == "heartbeat":
                self._membership.heartbeat(session, request.heartbeat.statistics, self._clock())
            elif request.WhichOneof("kind") == "leave":
                self._effects.perform(self._membership.leave(session, request.leave.code, request.leave.message))
                if request.leave.until_all_left:
                    await asyncio.sleep(limits.STAY)  # until then, the end of the job closes the session
                break
        else:
            self._effects.perform(self._membership.lost(session, _DIED))
        self._outboxes.close(session)
