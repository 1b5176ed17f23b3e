"""Takes frames: reads each header first, asks whether it is wanted, and only then reads the payload."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable

from jaxina.config import split_address
from jaxina.errors import InvalidArgumentError, JaxinaError
from jaxina.fabric.transfer.frame import START_BYTES, Header, header_bytes, names_in, unpack
from jaxina.fabric.transfer.sender import ANSWER, read

_log = logging.getLogger(__name__)

MAX_CONNECTIONS = 256
"""At once. Who comes beyond them is turned away, and comes again."""

_HEADER_WITHIN = 5.0  # seconds without a byte of it
_MOST_MESSAGE = 1000  # bytes
_REST = 1 << 20  # bytes of a refused frame that are read, so that its sender reads the answer


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
        self._lock = threading.Lock()
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
                except OSError:
                    return  # closed
                with self._lock:
                    if self._closed or len(self._open) >= MAX_CONNECTIONS:
                        connection.close()
                        continue
                    self._open.add(connection)
                threading.Thread(target=handle, args=(connection,), name="jaxina-frame", daemon=True).start()

        def handle(connection: socket.socket) -> None:
            try:
                self._take(connection, secret, admit, take, idle)
            except OSError as error:
                _log.debug("a transfer to %s broke: %s", self.address, error)
            finally:
                with self._lock:
                    self._open.discard(connection)
                connection.close()

        self._thread = threading.Thread(target=accept, name="jaxina-frames", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listens no more, and ends the transfers that are under way."""
        with self._lock:
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

    @staticmethod
    def _take(
        connection: socket.socket,
        secret: int,
        admit: Callable[[Header], None],
        take: Callable[[Header, bytes], None],
        idle: float,
    ) -> None:
        connection.settimeout(_HEADER_WITHIN)
        level = logging.WARNING
        try:
            start = read(connection, START_BYTES)
            header = unpack(start + read(connection, header_bytes(names_in(start)) - START_BYTES), secret)
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


def _reply(connection: socket.socket, error: JaxinaError | None) -> None:
    code = b"" if error is None else error.code.encode()
    message = b"" if error is None else error.message.encode()[:_MOST_MESSAGE]
    connection.sendall(ANSWER.pack(len(code), len(message)) + code + message)
    connection.shutdown(socket.SHUT_WR)
    if error is not None:
        # To close with unread bytes would reset the connection, and the answer could be lost.
        connection.settimeout(1.0)
        left = _REST
        while left > 0 and (rest := connection.recv(1 << 16)):
            left -= len(rest)
