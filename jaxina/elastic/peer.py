"""How a member that joins later gets the state: from another member, not through the keeper."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hmac
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc

from jaxina.control import grpc_options, limits
from jaxina.control.interfaces import with_port
from jaxina.control.peer import address_of
from jaxina.control.quota import CallQuota, OpenLimit
from jaxina.control.service_thread import ServiceThread
from jaxina.control.tls import Tls
from jaxina.control.token_check import TokenCheck, metadata_of
from jaxina.control.typed_status import error_from, refuse
from jaxina.elastic import elastic_pb2 as pb
from jaxina.elastic import elastic_pb2_grpc
from jaxina.elastic.state import leaves_of, parts_of, restored
from jaxina.errors import JaxinaError, JobRejectedError, WorkerLostError


@dataclasses.dataclass(frozen=True)
class _Offer:
    generation: int
    secret: int
    leaves: list[Any] | None  # None: nobody needs them any more


class _Service(elastic_pb2_grpc.PeerServicer):
    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._changed = asyncio.Event()
        self._offer = _Offer(0, 0, None)
        self._calls = CallQuota()
        self._waiting = OpenLimit("requests for a later state", limits.WAITING_PER_ADDRESS, limits.MAX_WAITING)

    def offer(self, offer: _Offer) -> None:
        self._offer = offer
        self._changed.set()

    async def State(
        self, request: pb.StateRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[pb.StatePart]:
        try:
            address = address_of(context.peer())
            self._calls.take(address, time.monotonic())
            await self._come_to(request.generation, address)
            leaves = self._leaves_for(request)
        except JaxinaError as error:
            await refuse(context, error)
        for part in parts_of(leaves):
            yield pb.StatePart(data=bytes(part))

    async def _come_to(self, generation: int, address: str) -> None:
        """Waits until this member is in a generation, or for as long as its patience lasts.

        Raises:
          JobRejectedError: too many wait already.
        """
        if self._offer.generation >= generation:
            return  # so those who only wait keep nobody from a state that is there
        with self._waiting.one_more(address), contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                while self._offer.generation < generation:
                    self._changed.clear()
                    await self._changed.wait()

    def _leaves_for(self, request: pb.StateRequest) -> list[Any]:
        """The state that a request asks for.

        Raises:
          JobRejectedError: it is for another generation, or from a stranger, or nobody needs the state any more.
        """
        offer = self._offer
        # The secret tells members of the generation from strangers.
        asked, own = (number.to_bytes(8, "big") for number in (request.secret, offer.secret))
        if offer.generation != request.generation or offer.leaves is None or not hmac.compare_digest(asked, own):
            raise JobRejectedError(
                f"this member does not offer the state of generation {request.generation} with that secret; it is in "
                f"generation {offer.generation}"
            )
        return offer.leaves


class Peer:
    """Serves this member's state to newcomers, from construction to `close`.

    Args:
      host: the numeric address at which other members reach this one.
      port: the port to listen at; 0 picks a free one.
      token: if given, only callers that send it are served.
      tls: if given, only callers with a certificate of the same authority are.
      patience: seconds that a request waits until this member has come to its generation.

    Attributes:
      address: HOST:PORT at which it listens.

    Raises:
      InvalidArgumentError: it cannot listen there.
    """

    def __init__(self, host: str, port: int, token: str | None, tls: Tls | None, patience: float):
        self._bind = with_port(host, port)
        self._interceptors = () if token is None else (TokenCheck(token, "member", "every member"),)
        self._tls = tls
        self._patience = patience
        self._service: _Service | None = None
        self._thread = ServiceThread("the state", self._serve)
        self.address = self._thread.address

    def offer(self, formed: pb.Formed, state: Any) -> None:
        """From now on, newcomers of this generation get this state."""
        self._change(_Offer(formed.generation, formed.secret, leaves_of(state)))

    def withdraw(self, formed: pb.Formed) -> None:
        """All members of the generation have its state, so this member need not keep it."""
        self._change(_Offer(formed.generation, formed.secret, None))

    def _change(self, offer: _Offer) -> None:
        assert self._service is not None
        self._thread.call(self._service.offer, offer)

    def close(self) -> None:
        """Serves no longer. Transfers that are under way are cut off."""
        self._thread.stop()

    async def _serve(self, thread: ServiceThread) -> None:
        self._service = _Service(self._patience)
        server = grpc.aio.server(options=grpc_options.OF_SERVER, interceptors=self._interceptors)
        elastic_pb2_grpc.add_PeerServicer_to_server(self._service, server)
        address = grpc_options.listen(server, self._bind, "a member", self._tls)
        await server.start()
        thread.listening(address)
        await thread.until_stopped()
        await thread.close(server)


def fetch(formed: pb.Formed, like: Any, timeout: float, token: str | None, tls: Tls | None) -> Any:
    """Gets the state with which a generation begins from the member that has it.

    Args:
      formed: the generation.
      like: a state of the same structure, shapes and dtypes.
      timeout: seconds that it may take.
      token: the members' token, if they need one.
      tls: this process's certificate, if they ask for one.

    Raises:
      WorkerLostError: the other member is gone, or the transfer was cut off, or took too long.
      JobRejectedError: the other member is in another generation.
      MismatchError: what came is no such state.
    """
    source = formed.members[formed.source]

    def gone(why: str) -> WorkerLostError:
        return WorkerLostError(
            f"the state of step {formed.step} did not come from member {source.number} ({source.place}) at "
            f"{source.address}: {why}"
        )

    with grpc_options.channel(source.address, tls) as channel:
        request = pb.StateRequest(generation=formed.generation, secret=formed.secret)
        call: Any = elastic_pb2_grpc.PeerStub(channel).State(request, timeout=timeout, metadata=metadata_of(token))
        try:
            return restored(like, (part.data for part in call))
        except grpc.RpcError as error:
            raise error_from(error, gone) from None
