"""A gRPC service with an asyncio loop on a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import grpc

from jaxina.errors import SystemCallError

_log = logging.getLogger(__name__)

_START_TIMEOUT = 10.0  # seconds
_STOP_GRACE = 0.5


class ServiceThread:
    """Runs a service from construction to `stop`.

    Args:
      what: what is served, for errors and for the log: "the scheduler".
      serve: serves until `stopping` is set. It calls `listening` once it does, and `close` at its end.

    Attributes:
      address: HOST:PORT at which it listens.
      stopping: set when it shall end.

    Raises:
      JaxinaError: what `serve` raised instead of listening.
      SystemCallError: the service did not start in time.
    """

    def __init__(self, what: str, serve: Callable[[ServiceThread], Coroutine[Any, Any, None]]) -> None:
        self.stopping = asyncio.Event()
        self._what = what
        self._serve = serve
        self._loop = asyncio.new_event_loop()
        self._started: concurrent.futures.Future[str] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._run, name=f"jaxina: {what}", daemon=True)
        self._thread.start()
        try:
            self.address = self._started.result(_START_TIMEOUT)
        except concurrent.futures.TimeoutError:
            raise SystemCallError(f"{what} did not start within {_START_TIMEOUT:g} s") from None

    def listening(self, address: str) -> None:
        """The service can be reached now."""
        self._started.set_result(address)

    def call(self, function: Callable[..., Any], *arguments: object) -> None:
        """Has a function called on the service's thread. Any thread, or a signal handler, may call it."""
        self._loop.call_soon_threadsafe(function, *arguments)

    def stop(self) -> None:
        """Ends the service, and waits for that."""
        if self._thread.is_alive():
            self.call(self.stopping.set)
            self._thread.join()

    @staticmethod
    async def close(server: grpc.aio.Server) -> None:
        """Cuts off the sessions. gRPC's own tasks of them end a little later than its stop() returns."""
        await server.stop(_STOP_GRACE)
        pending = asyncio.all_tasks() - {asyncio.current_task()}
        if pending:
            await asyncio.wait(pending, timeout=_STOP_GRACE)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve(self))
        except BaseException as error:
            if not self._started.done():
                self._started.set_exception(error)
            else:
                _log.exception("%s ended", self._what)
        finally:
            self._loop.close()
