"""Takes frames: reads each header first, asks whether it is wanted, and only then reads the payload."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable

from jaxina.config import split_address
from jaxina.errors import InvalidArgumentError, JaxinaError
from jaxina.fabric.transfer.frame import START_BYTES, Header, header_bytes, names_in, unpack
from jaxina.fabric.transfer.sender import ANSWER, fail_at, read

_log = logging.getLogger(__name__)

MAX_CONNECTIONS = 256
"""At once. Who comes beyond them takes the place of the oldest stranger. If there is none, it is turned away, and comes
again. A stranger is a connection whose header has not been read, or is not of the job."""

_PAUSE = 0.1  # seconds until the next try to take a connection, if one could not be taken
_HEADER_WITHIN = 5.0  # seconds from the connection to the header's end
_MOST_MESSAGE = 1000  # bytes
_REST = 1 << 20  # bytes of a refused frame that are read, so that its sender reads the answer
_REPLY_WITHIN = 2.0  # seconds for the answer and all of these bytes


class Receiver:
    """Listens from construction to `close`, and takes frames from `serve` on. Until then, senders wait.

    Args:
      bind: HOST:PORT; port 0 picks a free one.

    Attributes:
      address: HOST:PORT at which it listens.

    Raises:
      InvalidArgumentError: it cannot listen there.
    """

    def __init__(self, bind: str) -> None:
        host, port = split_address(bind)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._listener = socket.create_server((host, port), family=family, backlog=128)
        except OSError as error:
            raise InvalidArgumentError(f"cannot listen at {bind}: {error}") from error
        name = self._listener.getsockname()
        self.address = f"[{host}]:{name[1]}" if ":" in host else f"{host}:{name[1]}"
        self._open: set[socket.socket] = set()
        self._strangers: dict[socket.socket, None] = {}  # of the open ones, the oldest first
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def serve(
        self,
        secret: int,
        admit: Callable[[Header], None],
        take: Callable[[Header, bytes], None],
        idle: float,
    ) -> None:
        """Takes frames from now on, each on a thread of its own.

        Args:
          secret: the job's. Frames with another are refused.
          admit: raises a JaxinaError if the frame with this header is not wanted. Nothing of its payload is read then.
          take: gets a whole frame, whose checksum is right. Raises a JaxinaError to refuse it.
          idle: seconds without a byte after which a transfer has failed.
        """

        def accept() -> None:
            while True:
                try:
                    connection, _ = self._listener.accept()
                except OSError as error:
                    if self._closed:
                        return
                    _log.warning("cannot take a connection at %s: %s", self.address, error)
                    time.sleep(_PAUSE)  # until a file is free, say
                    continue
                if not self._find_place(connection):
                    connection.close()
                    continue
                try:
                    threading.Thread(target=handle, args=(connection,), name="jaxina-frame", daemon=True).start()
                except RuntimeError as error:
                    _log.warning("cannot take a connection at %s: %s", self.address, error)
                    self._forget(connection)
                    time.sleep(_PAUSE)  # until a thread is free; the sender tries again

        def handle(connection: socket.socket) -> None:
            try:
                self._take(connection, secret, admit, take, idle)
            except OSError as error:
                _log.debug("a transfer to %s broke: %s", self.address, error)
            finally:
                self._forget(connection)

        self._thread = threading.Thread(target=accept, name="jaxina-frames", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listens no more, and ends the transfers that are under way."""
        with self._changed:
            self._closed = True
            connections = list(self._open)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join()

    def _find_place(self, connection: socket.socket) -> bool:
        """Opens a stranger's connection. Returns whether there is a place for it."""
        with self._changed:
            if len(self._open) >= MAX_CONNECTIONS and self._strangers:
                oldest = next(iter(self._strangers))
                del self._strangers[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
                self._changed.wait_for(lambda: oldest not in self._open)  # at once: its thread can read nothing more
            if self._closed or len(self._open) >= MAX_CONNECTIONS:
                return False
            self._open.add(connection)
            self._strangers[connection] = None
            return True

    def _forget(self, connection: socket.socket) -> None:
        """A connection has ended."""
        with self._changed:
            self._open.discard(connection)
            self._strangers.pop(connection, None)
            self._changed.notify_all()
        connection.close()

    def _keep(self, connection: socket.socket) -> None:
        """A connection is no stranger's any more.

        Raises:
          ConnectionError: another has its place.
        """
        with self._changed:
            if connection not in self._strangers:
                raise ConnectionError("another connection has the place of this one")
            del self._strangers[connection]

    def _take(
        self,
        connection: socket.socket,
        secret: int,
        admit: Callable[[Header], None],
        take: Callable[[Header, bytes], None],
        idle: float,
    ) -> None:
        level = logging.WARNING
        try:
            header = _read_header(connection, secret)
            self._keep(connection)
            level = logging.INFO  # it is of this job; duplicates happen
            admit(header)
            connection.settimeout(idle)
            payload = read(connection, header.size)
            header.check(payload)
            take(header, payload)
        except JaxinaError as error:
            _log.log(level, "a frame from %s is refused: %s", connection.getpeername()[0], error.message)
            _reply(connection, error)
        else:
            _reply(connection, None)


def _read_header(connection: socket.socket, secret: int) -> Header:
    end = time.monotonic() + _HEADER_WITHIN
    start = read(connection, START_BYTES, end)
    return unpack(start + read(connection, header_bytes(names_in(start)) - START_BYTES, end), secret)


def _reply(connection: socket.socket, error: JaxinaError | None) -> None:
    end = time.monotonic() + _REPLY_WITHIN
    fail_at(connection, end)
    code = b"" if error is None else error.code.encode()
    message = b"" if error is None else error.message.encode()[:_MOST_MESSAGE]
    connection.sendall(ANSWER.pack(len(code), len(message)) + code + message)
    connection.shutdown(socket.SHUT_WR)
    if error is not None:
        # To close with unread bytes would reset the connection, and the answer could be lost.
        left = _REST
        while left > 0 and (rest := connection.recv(1 << 16)):
            left -= len(rest)
            fail_at(connection, end)
