"""Runs the control service of one data plane, on a thread of its own."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable
from typing import Any

import grpc

from jaxina.control import control_pb2 as pb
from jaxina.control import control_pb2_grpc, grpc_options, limits
from jaxina.control.data_plane import DataPlane
from jaxina.control.service import AggregatorService
from jaxina.control.service_thread import ServiceThread
from jaxina.control.tls import Tls
from jaxina.control.token_check import TokenCheck
from jaxina.errors import JaxinaError, ShutDownError, SwitchUnreachableError, from_code

_STATUS_TIMEOUT = 5.0  # seconds


class ControlServer:
    """The control service of a data plane. It serves from construction to `stop`.

    Args:
      data_plane: what moves the packets.
      bind: HOST:PORT to listen at; port 0 picks a free one.
      token: if given, only callers that send it are served.
      ask_every: the least time between two questions to the data plane about its state, in seconds.
      upstream: the control address of the switch that this one is below; empty if there is none.
      tls: if given, only callers with a certificate of the same authority are served.

    Attributes:
      address: HOST:PORT at which the service listens.
      ended: done when the service has ended. Its exception is why the service failed; it has none after `stop`.

    Raises:
      InvalidArgumentError: the service cannot listen at `bind`.
      SystemCallError: the service did not start in time.
    """

    def __init__(
        self,
        data_plane: DataPlane,
        bind: str,
        token: str | None = None,
        ask_every: float = limits.ASK_EVERY,
        upstream: str = "",
        tls: Tls | None = None,
    ):
        self._service = AggregatorService(data_plane, ask_every=ask_every, upstream=upstream, secure=tls is not None)
        self._interceptors = () if token is None else (TokenCheck(token),)
        self._bind = bind
        self._tls = tls
        self._stopped_with: JaxinaError | None = None
        self._thread = ServiceThread("the control service", self._serve)
        self.address, self.ended = self._thread.address, self._thread.ended

    def end_job(self, job: int, code: str, message: str) -> None:
        """Ends a job for all its workers, with the error that the data plane found. Any thread may call it."""
        self._thread.call(self._service.end_job, job, from_code(code, message))

    def status(self) -> pb.StatusReply:
        """What the switch is doing. Any thread may call it.

        Raises:
          ShutDownError: the service is stopping.
        """
        answer: concurrent.futures.Future[pb.StatusReply] = concurrent.futures.Future()

        def ask() -> None:
            try:
                answer.set_result(self._service.status())
            except BaseException as error:
                answer.set_exception(error)

        if self._thread.call(ask):
            with contextlib.suppress(concurrent.futures.TimeoutError):
                return answer.result(_STATUS_TIMEOUT)
        raise ShutDownError(f"the control service at {self.address} is stopping")

    def drain(self, on_drained: Callable[[], Any]) -> None:
        """Takes no more jobs. Calls `on_drained` on the service's thread when there is no job any more, perhaps several
        times. Any thread, or a signal handler, may call it."""
        self._thread.call(self._service.drain, on_drained)

    def stop(self, error: JaxinaError | None = None) -> None:
        """Ends the service. All jobs end with `error`; if it is None, with one that says the switch was stopped."""
        self._stopped_with = error
        self._thread.stop()

    def __enter__(self) -> ControlServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def _serve(self, thread: ServiceThread) -> None:
        service = self._service
        server = grpc.aio.server(options=grpc_options.OF_SERVER, interceptors=self._interceptors)
        control_pb2_grpc.add_AggregatorServicer_to_server(service, server)
        address = grpc_options.listen(server, self._bind, "a switch", self._tls)
        await server.start()
        thread.listening(address)
        failure = await thread.until_stopped(service.expire_forever())
        try:
            # The jobs end first. If the sessions broke off before, it would look as if the workers had died.
            service.end_all(
                failure
                or self._stopped_with
                or SwitchUnreachableError(f"the switch at {address} was stopped; start it and the job again")
            )
        finally:
            await thread.close(server)
