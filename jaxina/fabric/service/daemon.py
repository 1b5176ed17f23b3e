"""The scheduler's daemon: a thin shell around `Job`, with gRPC, a clock and the monitor."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc

from jaxina.config import split_address
from jaxina.control import grpc_options
from jaxina.control.entrance import Entrance
from jaxina.control.peer import address_of
from jaxina.control.service_thread import ServiceThread
from jaxina.control.tls import Tls
from jaxina.control.token_check import TokenCheck
from jaxina.control.typed_status import refuse
from jaxina.errors import InvalidArgumentError, JaxinaError, SwitchUnreachableError
from jaxina.fabric.monitor import RatesFile, estimate
from jaxina.fabric.service import fabric_pb2 as pb
from jaxina.fabric.service import fabric_pb2_grpc
from jaxina.fabric.service.hosts import Host
from jaxina.fabric.service.job import Job
from jaxina.fabric.service.settings import JobSettings
from jaxina.fabric.service.status import status_of

_log = logging.getLogger(__name__)

BATCH = 0.1
"""Seconds from one plan to the next, as in the paper."""


class FabricService(fabric_pb2_grpc.FabricServicer):
    """The service's methods. They all run in one asyncio loop, so the job needs no lock.

    Args:
      job: what is planned.
      rates: where the links' rates are read, if a testbed writes them.
      measured: whether the links' rates are estimated from the transfers.
    """

    def __init__(self, job: Job, rates: RatesFile | None, measured: bool) -> None:
        self.job = job
        self._rates = rates
        self._measured = measured
        self._outboxes: dict[int, asyncio.Queue[pb.SchedulerMessage | None]] = {}
        self._began = time.monotonic()
        self._entrance = Entrance("hosts")

    async def Session(
        self, requests: AsyncIterator[pb.HostMessage], context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pb.SchedulerMessage]:
        address = address_of(context.peer())
        with contextlib.ExitStack() as inside:
            try:
                what = "a session begins with a Join"
                join = await self._entrance.let_in(requests, address, time.monotonic(), what, inside)
                host = self._join(join)
            except JaxinaError as error:
                await refuse(context, error)
            outbox = self._outboxes[host.number]
            refused: list[JaxinaError] = []
            reader = asyncio.create_task(self._read(host, requests, refused))
            try:
                self._post()
                while (message := await outbox.get()) is not None:
                    yield message
                if refused:
                    await refuse(context, refused[0])
            finally:
                # A broken connection cancels the call, which ends up here too.
                reader.cancel()
                del self._outboxes[host.number]
                _log.info("%s has gone", host.name)
                self.job.left(host, time.monotonic_ns())
                self._post()

    async def Status(self, request: pb.StatusRequest, context: grpc.aio.ServicerContext[Any, Any]) -> pb.StatusReply:
        try:
            self._entrance.calls.take(address_of(context.peer()), time.monotonic())
        except JaxinaError as error:
            await refuse(context, error)
        return status_of(self.job, time.monotonic() - self._began)

    async def plan_forever(self) -> None:
        """Plans a batch after the other."""
        while True:
            await asyncio.sleep(BATCH)
            if self._rates is not None:
                for name, (out, into) in self._rates.changes(time.time()).items():
                    if name in self.job.settings.hosts:
                        self.job.links.set_rates(name, out, into)
            self.job.tick(time.monotonic_ns())
            self._post()

    def end(self, error: JaxinaError) -> None:
        """Ends the job for all hosts."""
        for outbox in self._outboxes.values():
            outbox.put_nowait(pb.SchedulerMessage(end=pb.End(code=error.code, message=error.message)))
            outbox.put_nowait(None)

    def _join(self, join: pb.Join) -> Host:
        try:
            split_address(join.address)
        except ValueError as error:
            raise InvalidArgumentError(f"a host's address for frames: {error}") from None
        host = self.job.join(join, time.monotonic_ns())
        self._outboxes[host.number] = asyncio.Queue()
        _log.info("%s has joined, at %s", host.name, host.address)
        return host

    async def _read(self, host: Host, requests: AsyncIterator[pb.HostMessage], refused: list[JaxinaError]) -> None:
        try:
            async for message in requests:
                kind = message.WhichOneof("kind")
                if kind == "measured":
                    self._learn(host, message.measured)
                self.job.hear(host, message, time.monotonic_ns())
                self._post()
                if kind == "leave":
                    break
        except JaxinaError as error:
            _log.warning("%s is sent away: %s", host.name, error.message)
            refused.append(error)
        except grpc.RpcError as error:
            _log.debug("the session of %s broke: %s", host.name, error)
        finally:
            with contextlib.suppress(KeyError):
                self._outboxes[host.number].put_nowait(None)

    def _learn(self, host: Host, measured: pb.Measured) -> None:
        """Takes what a transfer had for what the worker's own link has. The links of the models' hosts are known."""
        if not self._measured:
            return
        workers = self.job.settings.hosts[: self.job.settings.workers]
        most = self.job.settings.rate
        for name, outgoing in ((host.name, True), (measured.to, False)):
            if name in workers:
                out, into = self.job.links.rates(name)
                known = estimate(out if outgoing else into, most, measured.planned_per_s, measured.bytes_per_s)
                self.job.links.set_rates(name, known if outgoing else out, into if outgoing else known)
                return

    def _post(self) -> None:
        """Hands the job's messages to the sessions."""
        for number, message in self.job.hosts.outbox:
            if (outbox := self._outboxes.get(number)) is not None:
                outbox.put_nowait(message)
        self.job.hosts.outbox.clear()


class SchedulerDaemon:
    """A scheduler that serves from construction to `stop`, on a thread of its own.

    Args:
      settings: the job.
      bind: HOST:PORT to listen at; port 0 picks a free one.
      token: if given, only hosts that send it are served.
      tls: if given, only hosts with a certificate of the same authority are served.
      rates: where the links' rates are read, if a testbed writes them.
      measured: whether the links' rates are estimated from the transfers.

    Attributes:
      address: HOST:PORT at which it listens.
      ended: done when the service has ended. Its exception is why the service failed; it has none after `stop`.

    Raises:
      InvalidArgumentError: it cannot listen there.
      SystemCallError: it did not start in time.
    """

    def __init__(
        self,
        settings: JobSettings,
        bind: str,
        token: str | None = None,
        tls: Tls | None = None,
        rates: RatesFile | None = None,
        measured: bool = False,
    ) -> None:
        self._service = FabricService(Job(settings, secrets.randbits(64)), rates, measured)
        self._interceptors = (
            ()
            if token is None
            else (TokenCheck(token, "scheduler", "every host of the job and for `jaxina fabric status`"),)
        )
        self._bind, self._tls = bind, tls
        self._thread = ServiceThread("the scheduler", self._serve)
        self.address, self.ended = self._thread.address, self._thread.ended

    def stop(self) -> None:
        """Ends the job for all hosts, and the service."""
        self._thread.stop()

    def __enter__(self) -> SchedulerDaemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def _serve(self, thread: ServiceThread) -> None:
        server = grpc.aio.server(options=grpc_options.OF_SERVER, interceptors=self._interceptors)
        fabric_pb2_grpc.add_FabricServicer_to_server(self._service, server)
        address = grpc_options.listen(server, self._bind, "a scheduler", self._tls)
        await server.start()
        thread.listening(address)
        failure = await thread.until_stopped(self._service.plan_forever())
        stopped = SwitchUnreachableError(f"the scheduler at {address} was stopped; start it and the job again")
        self._service.end(failure or stopped)
        await thread.close(server)
