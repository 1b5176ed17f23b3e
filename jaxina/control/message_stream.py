"""The client's end of a call with messages both ways: how a process takes part in a job, a team or a fabric."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import grpc

from jaxina.control import limits
from jaxina.control.typed_status import error_from
from jaxina.errors import JaxinaError

LEAVE = 2.0
"""Seconds that a service gets to end a stream when a member has left."""


def sendable(text: str) -> str:
    """The text as a message can carry it: not too long, and without parts of a file's name that are no characters."""
    return text.encode(errors="backslashreplace").decode()[: limits.MAX_TEXT]


class MessageStream:
    """A stream of messages to and from a service. Iterating over it gives what the service says.

    Any thread may call its methods, but only one at a time may read.

    Args:
      method: the gRPC stub's method.
      first: the first message to say.
      metadata: the call's metadata.
      gone: makes the error for a service that does not answer or breaks off, from a text that says what happened.
      wait_for_ready: whether to wait for a service that is not there yet.
      heartbeat: makes what is said after `every` seconds of silence; None: nothing is.
      every: see `heartbeat`.

    Attributes:
      gone, every: may be changed.
    """

    def __init__(
        self,
        method: Any,
        first: Any,
        metadata: Sequence[tuple[str, str]],
        gone: Callable[[str], JaxinaError],
        *,
        wait_for_ready: bool = True,
        heartbeat: Callable[[], Any] | None = None,
        every: float | None = None,
    ) -> None:
        self.gone = gone
        self.every = every
        self._heartbeat = heartbeat
        self._outgoing: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.say(first)
        self._call = method(self._requests(), metadata=metadata, wait_for_ready=wait_for_ready)

    def say(self, message: Any) -> None:
        """Sends a message."""
        self._outgoing.put(message)

    def finish(self) -> None:
        """Says nothing any more after what was said. The service may still speak."""
        self._outgoing.put(None)

    def first(self, timeout: float) -> Any:
        """Waits for the service's first message. If none comes within `timeout` seconds, the stream ends.

        Raises:
          JaxinaError: none came, or the service refused.
        """
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self.cancel()

        in_time = threading.Timer(timeout, give_up)
        in_time.start()
        try:
            return next(self._call)
        except StopIteration:
            raise self.gone("it closed the connection") from None
        except grpc.RpcError as error:
            if late.is_set():
                raise self.gone(f"no answer within {timeout:g} s") from None
            raise error_from(error, self.gone) from None
        finally:
            in_time.cancel()

    def __iter__(self) -> Iterator[Any]:
        """Yields the service's messages until it ends the stream.

        Raises:
          JaxinaError: the error with which the service ended it, or `gone` if it broke off.
        """
        try:
            yield from self._call
        except grpc.RpcError as error:
            raise error_from(error, self.gone) from None

    def read_by(self, receive: Callable[[], None], name: str) -> None:
        """Has a thread of its own call `receive`, which iterates over this stream."""
        self._thread = threading.Thread(target=receive, name=name, daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """Ends the stream at once."""
        self._call.cancel()

    def close(self, patience: float = LEAVE) -> None:
        """Waits at most `patience` seconds until the service ends the stream, then ends it. Not for its reader."""
        if self._thread is None:
            self.cancel()
            return
        self._thread.join(patience)
        self.cancel()
        self._thread.join(LEAVE)

    def _requests(self) -> Iterator[Any]:
        while True:
            try:
                message = self._outgoing.get(timeout=self.every if self._heartbeat else None)
            except queue.Empty:
                assert self._heartbeat is not None
                message = self._heartbeat()
            if message is None:
                return
            yield message
