"""The coordinator's side of the roll call: it gathers the processes of a job before jax.distributed starts.

jax.distributed aborts a process, with a core dump, if another process is missing or comes twice. So each process first
tells the coordinator its rank, the number of processes, its settings, and how long it waits for the others (its
patience). When all have come, the coordinator tells them where the service of jax.distributed is. If one process's
patience ends first, the coordinator tells all processes which are missing. The connections stay open. A process ends
when it says so, or when its connection closes. Before all have come, its rank is free again, for a process that was
started in its place. Later the coordinator tells the others.

A process whose rank has ended already belongs to the job's next start: `jaxina run` of its host has started it again,
while the previous start's coordinator still runs on another host. It is told so, and calls again.

A process may tell the coordinator what its watchdog found. Whoever asks (`jaxina status --coordinator`) gets a view of
the job.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import math
import selectors
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any

from jaxina.control.rendezvous import check_equal_settings, check_names
from jaxina.control.roll_call import END, MAX_LATE, MAX_LINE, Answer, JobView
from jaxina.control.roll_lines import notice_gone_host, receive, refuse, send
from jaxina.errors import (
    InvalidArgumentError,
    JaxinaError,
    MismatchError,
    NeverJoinedError,
    RankTakenError,
)

CALLERS = 64
_SILENCE = 10.0  # seconds that a connection may be open before its process has said its line
_NOTHING_FREE = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_PAUSE = 0.1  # seconds until the next try to take a connection, if nothing can be closed for it


@dataclasses.dataclass(frozen=True)
class _Present:
    """A process that has come: what it said, its connection, and when its patience ends."""

    answer: Answer
    connection: socket.socket
    until: float


class Roll:
    """Gathers the processes of one job at a listening socket.

    Args:
      listener: the socket. None if the caller calls `note` itself, as a fuzzer does.
      processes: how many processes the job has.
      serve: starts the service of jax.distributed and returns its address. It is called when all processes have come.
      tls: the context for TLS; None: the processes call without.
      callers: how many connections may be open that have said nothing yet. If one more comes, the oldest is closed.
    """

    def __init__(
        self,
        listener: socket.socket | None,
        processes: int,
        serve: Callable[[], str],
        tls: ssl.SSLContext | None = None,
        callers: int = CALLERS,
    ):
        self._listener = listener
        self._processes = processes
        self._serve = serve
        self._tls = tls
        self._here: dict[int, _Present] = {}
        self._begun = False  # whether the processes know where the service is
        self._lines: dict[socket.socket, bytes] = {}
        self._most_callers = callers
        self._callers: dict[socket.socket, float] = {}  # those that have said nothing yet -> when they are cut off
        self._living: dict[socket.socket, int] = {}  # connection -> rank, of the processes that have not ended
        self._leaving: dict[socket.socket, int] = {}  # the same, of those that have ended, and are not gone yet
        self._ended_ranks: list[int] = []
        self._late, self._late_since = "", 0.0  # what a process told last, and when
        self._selector: selectors.BaseSelector = selectors.DefaultSelector()

    def call(self) -> None:
        """Waits until all processes have come, and tells them where the service is.

        Raises:
          NeverJoinedError: some did not come before another's patience ended. The message names them. The processes
            that came have been told.
          MismatchError: processes have different settings. They have been told.
          InvalidArgumentError: two hosts have one name. The processes have been told.
        """
        assert self._listener is not None
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        try:
            complete = self._gather()
            # Settings are compared only now, so that all processes are there to be told.
            first = min(self._here)
            for rank, present in self._here.items():
                check_equal_settings(first, self._here[first].answer.settings, rank, present.answer.settings)
            check_names({rank: present.answer.place for rank, present in self._here.items()})
            if not complete:
                raise self._never_joined()
            self._tell({"service": self._serve()})
            self._begun = True
        except JaxinaError as error:
            self._tell({"error": error.code, "message": error.message})
            for present in self._here.values():
                present.connection.close()
            raise

    def stay(self) -> None:
        """Tells the processes about each process that ends, and sends away those that still come. It never returns."""
        while True:
            self._look(None)

    def note(self, connection: socket.socket, line: bytes) -> int | None:
        """Handles the line that a process sent: notes the process, or refuses it, or shows it the job.

        Returns:
          The process's rank if it was noted; None if its connection was closed.
        """
        try:
            if "look" in json.loads(line):
                send(connection, dataclasses.asdict(self._view()))
                connection.close()
                return None
            answer = Answer.from_line(line)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            connection.close()  # not a process of jaxina
            return None
        if answer.processes != self._processes:
            refuse(
                connection,
                MismatchError(
                    f"process {answer.rank} ({answer.place}) was started as one of {answer.processes} processes, but "
                    f"the coordinator expects {self._processes}"
                ),
            )
        elif not 0 <= answer.rank < self._processes:
            refuse(
                connection,
                InvalidArgumentError(
                    f"{answer.place} claims rank {answer.rank}, but there are {self._processes} processes, and "
                    "JAXINA_RANK counts from 0"
                ),
            )
        elif answer.rank in self._ended_ranks:
            send(connection, {"ended": answer.rank})
            connection.close()
        elif answer.rank in self._here:
            holder = self._here[answer.rank].answer
            refuse(
                connection,
                RankTakenError(
                    f"rank {answer.rank} is taken by {holder.place}; {answer.place} claims it too: give each process "
                    "its own JAXINA_RANK"
                ),
            )
        else:
            self._here[answer.rank] = _Present(answer, connection, time.monotonic() + answer.patience)
            return answer.rank
        return None

    def _gather(self) -> bool:
        """Waits for all processes. Returns False if one's patience ended first."""
        while len(self._here) < self._processes:
            left = min((present.until for present in self._here.values()), default=math.inf) - time.monotonic()
            if left <= 0:
                return False
            self._look(None if left == math.inf else left)
        return True

    def _look(self, seconds: float | None) -> None:
        waits = [] if seconds is None else [seconds]
        if self._callers:
            waits.append(max(0.0, min(self._callers.values()) - time.monotonic()))
        ready = [key.fileobj for key, _ in self._selector.select(min(waits, default=None))]
        # A process that has ended comes before the one that takes its place.
        for connection in sorted(ready, key=lambda connection: connection not in self._living):
            self._read(connection)
        self._cut_off()

    def _cut_off(self) -> None:
        """Closes connections that have said nothing for long, and the oldest ones if there are too many."""
        now = time.monotonic()
        for connection, until in list(self._callers.items()):  # the oldest first
            if until > now and len(self._callers) <= self._most_callers:
                break
            self._forget(connection)
            connection.close()

    def _forget(self, caller: socket.socket) -> None:
        self._selector.unregister(caller)
        del self._lines[caller], self._callers[caller]

    def _read(self, ready: Any) -> None:
        if ready is self._listener:
            self._accept()
            return
        data = receive(ready)
        if data is None:
            return
        if ready in self._living:
            self._heard(ready, data)
            return
        if ready in self._leaving:
            if not data:
                self._gone(ready)
            return
        line = self._lines[ready] = self._lines[ready] + data
        # A process of jaxina begins with an object of JSON. One that speaks TLS without need shall not wait for more.
        if data and line.startswith(b"{") and b"\n" not in line and len(line) < MAX_LINE:
            return
        self._forget(ready)
        rank = self.note(ready, line)
        if rank is not None:
            self._living[ready] = rank
            self._selector.register(ready, selectors.EVENT_READ)

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            if error.errno in _NOTHING_FREE:
                # The caller waits at the listener, and may have the place of the oldest one.
                self._most_callers = max(1, len(self._callers) - 1)
                if len(self._callers) <= self._most_callers:
                    time.sleep(_PAUSE)
            return
        connection.setblocking(False)
        notice_gone_host(connection)
        if self._tls is not None:
            try:
                connection.getpeername()  # which fails if the other end has gone already
                # The first reads do the handshake.
                connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
            except OSError:
                connection.close()
                return
        self._lines[connection] = b""
        self._callers[connection] = time.monotonic() + _SILENCE
        self._selector.register(connection, selectors.EVENT_READ)

    def _heard(self, connection: socket.socket, data: bytes) -> None:
        """Notes what a process has told about late collectives, or that it ends. Anything else is its end too."""
        *lines, rest = (self._lines.get(connection, b"") + data).split(b"\n")
        self._lines[connection] = rest
        try:
            for line in lines:
                if line == END:
                    self._ended(connection)
                    return
                self._late = str(json.loads(line)["late"])[:MAX_LATE]
                self._late_since = time.monotonic()
        except (ValueError, KeyError, TypeError, RecursionError):
            data = b""
        if not data or len(rest) > MAX_LINE:
            self._ended(connection)
            self._gone(connection)

    def _view(self) -> JobView:
        here = {rank: str(present.answer.place) for rank, present in sorted(self._here.items())}
        since = time.monotonic() - self._late_since if self._late else 0.0
        leaving = sorted(self._leaving.values())
        return JobView(self._processes, here, sorted(self._ended_ranks), leaving, self._late, since)

    def _ended(self, connection: socket.socket) -> None:
        """Notes that a process has ended. If the job has not begun, another may take its rank."""
        rank = self._leaving[connection] = self._living.pop(connection)
        if not self._begun:
            del self._here[rank]
            return
        self._ended_ranks.append(rank)
        for other in self._living:
            send(other, {"ended": rank})

    def _gone(self, connection: socket.socket) -> None:
        """Notes that a process that has ended exists no more."""
        del self._lines[connection], self._leaving[connection]
        self._selector.unregister(connection)
        connection.close()

    def _tell(self, outcome: dict[str, Any]) -> None:
        for present in self._here.values():
            send(present.connection, outcome)

    def _never_joined(self) -> NeverJoinedError:
        missing = [rank for rank in range(self._processes) if rank not in self._here]
        patience = min(present.answer.patience for present in self._here.values())
        return NeverJoinedError(
            f"process{'es' if len(missing) > 1 else ''} {', '.join(map(str, missing))} of {self._processes} did not "
            f"call jaxina.init() within {patience:g} s; see their output. If they start slowly, raise "
            "JAXINA_JOIN_TIMEOUT"
        )
