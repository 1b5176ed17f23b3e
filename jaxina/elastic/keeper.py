"""The keeper of an elastic team: a thin shell around `Roster`, with gRPC and a clock.

It is a process of its own, so that no worker's death ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from jaxina.control import grpc_options, limits
from jaxina.control.entrance import Entrance
from jaxina.control.peer import address_of
from jaxina.control.service_thread import ServiceThread
from jaxina.control.tls import Tls
from jaxina.control.token_check import TokenCheck
from jaxina.control.typed_status import refuse
from jaxina.elastic import elastic_pb2 as pb
from jaxina.elastic import elastic_pb2_grpc
from jaxina.elastic.membership import error_of
from jaxina.elastic.roster import Phase, Roster
from jaxina.errors import JaxinaError, SwitchUnreachableError

_log = logging.getLogger(__name__)

_TICK = 0.1  # seconds
_STALLED = 1.0  # seconds
_DIED = "died: its connection broke off"


class KeeperService(elastic_pb2_grpc.KeeperServicer):
    """The service's methods. They all run in one asyncio loop, so the roster needs no lock.

    Args:
      roster: what decides.
      on_over: called when the team has ended and all members have gone.
    """

    def __init__(self, roster: Roster, on_over: Callable[[], object]):
        self.roster = roster
        self._on_over = on_over
        self._outboxes: dict[int, asyncio.Queue[pb.KeeperMessage | None]] = {}
        self._entrance = Entrance("members")
        self._said: tuple[int, Phase] = (0, roster.phase)

    async def Attend(
        self, requests: AsyncIterator[pb.MemberMessage], context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pb.KeeperMessage]:
        address = address_of(context.peer())
        with contextlib.ExitStack() as inside:
            try:
                what = "a membership begins with a Join"
                join = await self._entrance.let_in(requests, address, time.monotonic(), what, inside)
                member = self.roster.join(join, time.monotonic())
            except JaxinaError as error:
                _log.info("refused: %s", error)
                await refuse(context, error)
            _log.info("%s joined", member)
            outbox: asyncio.Queue[pb.KeeperMessage | None] = asyncio.Queue()
            self._outboxes[member.number] = outbox
            self._deliver()
            reader = asyncio.create_task(self._read(member.number, requests))
            try:
                while (message := await outbox.get()) is not None:
                    yield message
            finally:
                # A broken connection cancels the call, which ends up here too.
                reader.cancel()
                self._outboxes.pop(member.number, None)
                self.roster.lost(member.number, _DIED, time.monotonic())
                self._deliver()

    async def tick_forever(self) -> None:
        """Lets the roster look at its deadlines, until cancelled."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(_TICK)
            # If this process was stopped meanwhile, it has not read what the members sent. It reads that first.
            if time.monotonic() - began < _STALLED:
                self.roster.tick(time.monotonic())
                self._deliver()

    def end(self, error: JaxinaError) -> None:
        """Ends the team for all its members."""
        if self.roster.phase is not Phase.FINISHED:
            self.roster.end(error)
        self._deliver()

    # ---- inside

    async def _read(self, number: int, requests: AsyncIterator[pb.MemberMessage]) -> None:
        """Reads a member's messages until it leaves. A stream that ends without Leave means a lost member."""
        roster = self.roster
        async for request in requests:
            now = time.monotonic()
            if (size := request.ByteSize()) > limits.MAX_SESSION_BYTES:
                roster.lost(number, f"sent a message of {size} bytes", now)
                break
            roster.heard(number, now)
            kind = request.WhichOneof("kind")
            if kind == "ready":
                roster.ready(number, request.ready.generation, now)
            elif kind == "vote":
                roster.vote(number, request.vote.generation, request.vote.step, request.vote.digest, now)
            elif kind == "failed":
                failed = request.failed
                roster.failed(number, failed.generation, error_of(failed.code, failed.message), now)
            elif kind == "leave":
                leave = request.leave
                roster.leave(number, error_of(leave.code, leave.message) if leave.code else None, now)
                break
            self._deliver()
        else:
            roster.lost(number, _DIED, time.monotonic())
        self._deliver()
        self._close(number)

    def _deliver(self) -> None:
        """Sends what the roster has to tell. A member that was told that its membership has ended is cut off."""
        roster = self.roster
        while roster.outbox:
            number, message = roster.outbox.popleft()
            if (outbox := self._outboxes.get(number)) is not None:
                outbox.put_nowait(message)
                if message.WhichOneof("kind") == "ended":
                    outbox.put_nowait(None)
        said = (roster.generation, roster.phase)
        if said != self._said:
            self._said = said
            self._say()
        if roster.phase in (Phase.FINISHED, Phase.FAILED) and not self._outboxes:
            self._on_over()

    def _say(self) -> None:
        roster = self.roster
        if roster.phase is Phase.FAILED:
            _log.error("%s", roster.error)
        elif roster.phase is Phase.FINISHED:
            _log.info("finished after %d steps", roster.step)
        elif roster.phase is Phase.FORMING:
            numbers = ", ".join(map(str, roster.current))
            _log.info("generation %d at step %d: members %s (%s)", roster.generation, roster.step, numbers, roster.why)
        elif roster.phase is Phase.GATHERING:
            _log.warning("step %d waits for more members: %s", roster.step, roster.why)

    def _close(self, number: int) -> None:
        if (outbox := self._outboxes.get(number)) is not None:
            outbox.put_nowait(None)


class Keeper:
    """The keeper of one team, from construction to `stop`.

    Args:
      roster: what decides.
      bind: HOST:PORT to listen at; port 0 picks a free one.
      token: if given, only members that send it are taken.
      tls: if given, only members with a certificate of the same authority are.
      on_over: called on the service's thread when the team has ended and all members have gone.

    Attributes:
      address: HOST:PORT at which it listens.
      ended: done when the service has ended. Its exception is why the service failed; it has none after `stop`.

    Raises:
      InvalidArgumentError: it cannot listen at `bind`.
      SystemCallError: the service did not start in time.
    """

    def __init__(
        self,
        roster: Roster,
        bind: str,
        token: str | None = None,
        tls: Tls | None = None,
        on_over: Callable[[], object] = lambda: None,
    ):
        self._service = KeeperService(roster, on_over)
        self._interceptors = () if token is None else (TokenCheck(token, "keeper", "every member"),)
        self._bind = bind
        self._tls = tls
        self._thread = ServiceThread("the keeper", self._serve)
        self.address, self.ended = self._thread.address, self._thread.ended

    @property
    def error(self) -> JaxinaError | None:
        """What has ended the team; None if nothing has, or if it has finished."""
        return self._service.roster.error

    def stop(self) -> None:
        """Ends the service, and the team with it if it is not over."""
        self._thread.stop()

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def _serve(self, thread: ServiceThread) -> None:
        server = grpc.aio.server(options=grpc_options.OF_SERVER, interceptors=self._interceptors)
        elastic_pb2_grpc.add_KeeperServicer_to_server(self._service, server)
        address = grpc_options.listen(server, self._bind, "a keeper", self._tls)
        await server.start()
        thread.listening(address)
        failure = await thread.until_stopped(self._service.tick_forever())
        try:
            self._service.end(failure or SwitchUnreachableError(f"the keeper at {address} was stopped"))
        finally:
            await thread.close(server)
