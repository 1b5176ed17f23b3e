"""A gRPC service with an asyncio loop on a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import grpc

from jaxina.errors import JaxinaError, SystemCallError

_log = logging.getLogger(__name__)

_START_TIMEOUT = 10.0  # seconds
_STOP_GRACE = 0.5


class ServiceThread:
    """Runs a service from construction to `stop`.

    Args:
      what: what is served, for errors and for the log: "the scheduler".
      serve: serves. It calls `listening` once it does, then `until_stopped`, and `close` at its end.

    Attributes:
      address: HOST:PORT at which it listens.
      ended: done when the service has ended. Its exception is why the service failed; it has none after `stop`.

    Raises:
      JaxinaError: what `serve` raised instead of listening.
      SystemCallError: the service did not start in time.
    """

    def __init__(self, what: str, serve: Callable[[ServiceThread], Coroutine[Any, Any, None]]) -> None:
        self.ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._failure: BaseException | None = None
        self._stopping = asyncio.Event()
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

    async def until_stopped(self, work: Coroutine[Any, Any, Any] | None = None) -> JaxinaError | None:
        """Waits until the service shall end, and works beside the calls until then.

        Args:
          work: goes on for ever, unless it fails. Without it the service cannot keep its promises.

        Returns:
          Why the work failed, for those who are served; None if it did not.
        """
        if work is None:
            await self._stopping.wait()
            return None
        working, stopping = asyncio.create_task(work), asyncio.create_task(self._stopping.wait())
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        failure = working.exception() if working.done() else None
        working.cancel()
        stopping.cancel()
        if failure is None:
            return None
        _log.error("%s failed", self._what, exc_info=failure)
        error = failure if isinstance(failure, JaxinaError) else SystemCallError(f"{self._what} failed: {failure!r}")
        self._failure = error
        return error

    def call(self, function: Callable[..., Any], *arguments: object) -> bool:
        """Has a function called on the service's thread. Any thread, or a signal handler, may call it.

        Returns:
          False if the service has ended: the function is not called.
        """
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop is closed
            return False
        return True

    def stop(self) -> None:
        """Ends the service if it has not ended by itself, and waits for that."""
        self.call(self._stopping.set)
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
            self._failure = error
            if not self._started.done():
                self._started.set_exception(error)
            else:
                _log.exception("%s ended", self._what)
        finally:
            self._loop.close()
            if self._failure is None:
                self.ended.set_result(None)
            else:
                self.ended.set_exception(self._failure)
