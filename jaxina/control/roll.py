"""The coordinator's side of the roll: it gathers the processes of a job before jax.distributed starts.

jax.distributed ends a process (abort, core dump) when another is missing, or comes twice. So each process first tells
the coordinator its rank, the number of processes, its settings, and how long it waits for the others. When all are
there, everybody is told where the service of jax.distributed is; when somebody's patience ends, who is missing. The
connections stay: when one closes, its process has ended, and the others are told.
"""

from __future__ import annotations

import json
import math
import selectors
import socket
import time
from collections.abc import Callable
from typing import Any

from jaxina.control.rendezvous import check_equal_settings
from jaxina.control.roll_call import GRACE, MAX_LINE, Answer
from jaxina.errors import (
    InvalidArgumentError,
    JaxinaError,
    MismatchError,
    NeverJoinedError,
    RankTakenError,
)


class Roll:
    """Gathers `processes` processes at a listening socket, once.

    Args:
      serve: starts the service of jax.distributed when all are there, and returns its address.
    """

    def __init__(self, listener: socket.socket | None, processes: int, serve: Callable[[], str]):
        self._listener = listener
        self._processes = processes
        self._serve = serve
        self._here: dict[int, tuple[Answer, socket.socket]] = {}
        self._lines: dict[socket.socket, bytes] = {}
        self._living: dict[socket.socket, int] = {}  # whose processes have not ended: connection -> rank
        self._deadline = math.inf
        self._selector: selectors.BaseSelector = selectors.DefaultSelector()

    def call(self) -> None:
        """Returns once everybody is there and was told where the service is.

        Raises, after telling everybody:
          NeverJoinedError: some did not come before another's patience ended; names them.
          MismatchError: processes have other settings.
        """
        assert self._listener is not None
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        try:
            complete = self._gather()
            # Only now, so that every process is there to be told.
            first = min(self._here)
            for rank, (answer, _) in self._here.items():
                check_equal_settings(first, self._here[first][0].settings, rank, answer.settings)
            if not complete:
                raise self._never_joined()
            self._tell({"service": self._serve()})
        except JaxinaError as error:
            self._tell({"error": error.code, "message": error.message})
            for _, connection in self._here.values():
                connection.close()
            raise
        for rank, (_, connection) in self._here.items():
            connection.setblocking(False)
            self._living[connection] = rank
            self._selector.register(connection, selectors.EVENT_READ)

    def stay(self) -> None:
        """Tells the processes of each that ends, and whoever still comes that the job is complete; for ever."""
        while True:
            self._look(None)

    def note(self, connection: socket.socket, line: bytes) -> None:
        """Takes up what a connection has said, or refuses it."""
        try:
            answer = Answer.from_line(line)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            connection.close()  # not one of us
            return
        if answer.processes != self._processes:
            _refuse(
                connection,
                MismatchError(
                    f"process {answer.rank} ({answer.place}) was started as one of {answer.processes} processes, the "
                    f"coordinator waits for {self._processes}"
                ),
            )
        elif not 0 <= answer.rank < self._processes:
            _refuse(
                connection,
                InvalidArgumentError(
                    f"{answer.place} claims rank {answer.rank} of {self._processes} processes: JAXINA_RANK counts from 0"
                ),
            )
        elif answer.rank in self._here:
            holder = self._here[answer.rank][0]
            _refuse(
                connection,
                RankTakenError(
                    f"rank {answer.rank} is taken by {holder.place}; {answer.place} claims it too: give each process "
                    "its own JAXINA_RANK"
                ),
            )
        else:
            self._here[answer.rank] = (answer, connection)
            self._deadline = min(self._deadline, time.monotonic() + answer.patience)

    def _gather(self) -> bool:
        """Whether all came while everybody waited."""
        while len(self._here) < self._processes:
            left = self._deadline - time.monotonic()
            if left <= 0:
                return False
            self._look(None if left == math.inf else left)
        return True

    def _look(self, seconds: float | None) -> None:
        for key, _ in self._selector.select(seconds):
            self._read(key.fileobj)

    def _read(self, ready: Any) -> None:
        if ready is self._listener:
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            self._lines[connection] = b""
            self._selector.register(connection, selectors.EVENT_READ)
            return
        if ready in self._living:
            self._ended(ready)
            return
        data = _receive(ready)
        line = self._lines[ready] = self._lines[ready] + data
        if data and b"\n" not in line and len(line) < MAX_LINE:
            return
        self._selector.unregister(ready)
        del self._lines[ready]
        self.note(ready, line)

    def _ended(self, connection: socket.socket) -> None:
        """A process that is there says nothing more, so what can be read is its end."""
        rank = self._living.pop(connection)
        self._selector.unregister(connection)
        connection.close()
        for other in self._living:
            _send(other, {"ended": rank})

    def _tell(self, outcome: dict[str, Any]) -> None:
        for _, connection in self._here.values():
            _send(connection, outcome)

    def _never_joined(self) -> NeverJoinedError:
        missing = [rank for rank in range(self._processes) if rank not in self._here]
        patience = min(answer.patience for answer, _ in self._here.values())
        return NeverJoinedError(
            f"process{'es' if len(missing) > 1 else ''} {', '.join(map(str, missing))} of {self._processes} did not "
            f"call jaxina.init() within {patience:g} s; see their output. A slow start needs a longer "
            "JAXINA_JOIN_TIMEOUT"
        )


def _refuse(connection: socket.socket, error: JaxinaError) -> None:
    _send(connection, {"error": error.code, "message": error.message})
    connection.close()


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(MAX_LINE)
    except OSError:
        return b""


def _send(connection: socket.socket, outcome: dict[str, Any]) -> None:
    try:
        connection.settimeout(GRACE)
        connection.sendall(json.dumps(outcome).encode() + b"\n")
    except OSError:
        pass  # It has gone; it, or whoever waits for it, will say so.
