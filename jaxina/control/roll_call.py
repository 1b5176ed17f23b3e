"""The launched processes find each other before jax.distributed starts.

jax.distributed ends a process (abort, core dump) when another is missing, or comes twice. So
process 0 first calls the roll on the coordinator's address: each other process connects and says
its rank, the number of processes and its settings; when all are there, or the deadline passes,
process 0 tells everybody the outcome. Only then jax.distributed takes the same address over.
"""

from __future__ import annotations

import dataclasses
import json
import selectors
import socket
import time
from typing import Any

from jaxina.config import split_address
from jaxina.control.rendezvous import check_equal_settings
from jaxina.control.topology import Place
from jaxina.errors import (
    InvalidArgumentError,
    JaxinaError,
    MismatchError,
    NeverJoinedError,
    RankTakenError,
    from_code,
)

_MAX_LINE = 65536
# How long a process that has connected may take to say its line, and process 0 to answer beyond
# its own deadline.
_GRACE = 5.0
_RETRY = 0.05


@dataclasses.dataclass(frozen=True)
class Answer:
    """One process's line in the roll."""

    rank: int
    processes: int
    place: Place
    settings: dict[str, Any]

    def to_line(self) -> bytes:
        return json.dumps(dataclasses.asdict(self)).encode() + b"\n"

    @staticmethod
    def from_line(line: bytes) -> Answer:
        data = json.loads(line)
        return Answer(
            int(data["rank"]),
            int(data["processes"]),
            Place(**data["place"]),
            dict(data["settings"]),
        )


def call_roll(address: str, me: Answer, timeout: float) -> None:
    """Returns in every process once all `me.processes` are there.

    Raises, in every process that takes part:
      NeverJoinedError: some did not come within `timeout` seconds; names them.
      RankTakenError: a second process came with a rank (raised in that one only; the first goes
      on).
      MismatchError: another number of processes, or other settings.
    """
    if me.rank == 0:
        with _listen(address) as listener:
            _Roll(listener, me, timeout).call()
    else:
        _answer(address, me, timeout)


def _listen(address: str) -> socket.socket:
    host, port = split_address(address)
    try:
        return socket.create_server((host, port), family=_family(host), backlog=128)
    except OSError as error:
        raise InvalidArgumentError(
            f"process 0 cannot listen on JAXINA_COORDINATOR={address}: {error.strerror}. It must "
            "be a free port of "
            "this host; if another process 0 runs, two processes have rank 0"
        ) from error


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


class _Roll:
    """Process 0's side."""

    def __init__(self, listener: socket.socket, me: Answer, timeout: float):
        self._listener = listener
        self._me = me
        self._timeout = timeout
        self._here: dict[int, tuple[Answer, socket.socket]] = {}
        self._lines: dict[socket.socket, bytes] = {}

    def call(self) -> None:
        try:
            complete = self._gather()
            # Only now, so that every process is there to be told.
            for rank, (answer, _) in self._here.items():
                check_equal_settings(0, self._me.settings, rank, answer.settings)
            if not complete:
                raise self._never_joined()
            self._tell({})
        except JaxinaError as error:
            self._tell({"error": error.code, "message": error.message})
            raise
        finally:
            for _, connection in self._here.values():
                connection.close()
            for connection in self._lines:
                connection.close()

    def _gather(self) -> bool:
        """Whether all came before the deadline."""
        deadline = time.monotonic() + self._timeout
        self._listener.setblocking(False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while len(self._here) < self._me.processes - 1:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                for key, _ in selector.select(left):
                    self._serve(selector, key.fileobj)
        return True

    def _serve(self, selector: selectors.BaseSelector, ready: Any) -> None:
        if ready is self._listener:
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            self._lines[connection] = b""
            selector.register(connection, selectors.EVENT_READ)
            return
        data = _receive(ready)
        line = self._lines[ready] = self._lines[ready] + data
        if data and b"\n" not in line and len(line) < _MAX_LINE:
            return
        selector.unregister(ready)
        del self._lines[ready]
        self._note(ready, line)

    def _note(self, connection: socket.socket, line: bytes) -> None:
        try:
            answer = Answer.from_line(line)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            connection.close()  # not one of us
            return
        if answer.processes != self._me.processes:
            self._refuse(
                connection,
                MismatchError(
                    f"process {answer.rank} ({answer.place}) was started as one of "
                    f"{answer.processes} processes, process 0 "
                    f"as one of {self._me.processes}"
                ),
            )
        elif not 0 <= answer.rank < self._me.processes:
            self._refuse(
                connection,
                InvalidArgumentError(
                    f"{answer.place} claims rank {answer.rank} of {self._me.processes} processes: "
                    "JAXINA_RANK counts from 0"
                ),
            )
        elif answer.rank in self._here or answer.rank == 0:
            holder = self._me if answer.rank == 0 else self._here[answer.rank][0]
            self._refuse(
                connection,
                RankTakenError(
                    f"rank {answer.rank} is taken by {holder.place}; {answer.place} claims it too: "
                    "give each process its "
                    "own JAXINA_RANK"
                ),
            )
        else:
            self._here[answer.rank] = (answer, connection)

    @staticmethod
    def _refuse(connection: socket.socket, error: JaxinaError) -> None:
        _send(connection, {"error": error.code, "message": error.message})
        connection.close()

    def _tell(self, outcome: dict[str, Any]) -> None:
        for _, connection in self._here.values():
            _send(connection, outcome)

    def _never_joined(self) -> NeverJoinedError:
        missing = [rank for rank in range(1, self._me.processes) if rank not in self._here]
        return NeverJoinedError(
            f"process{'es' if len(missing) > 1 else ''} {', '.join(map(str, missing))} of "
            f"{self._me.processes} did not "
            f"call jaxina.init() within {self._timeout:g} s; see their output. A slow start needs "
            "a longer "
            "JAXINA_JOIN_TIMEOUT"
        )


def _answer(address: str, me: Answer, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while True:
        try:
            outcome = _say(address, me, deadline, timeout)
        except OSError as error:
            if time.monotonic() >= deadline:
                raise NeverJoinedError(
                    f"process 0 did not call jaxina.init() within {timeout:g} s: nothing answers "
                    "at "
                    f"JAXINA_COORDINATOR={address} ({error})"
                ) from error
            time.sleep(_RETRY)
            continue
        if "error" in outcome:
            raise from_code(outcome["error"], outcome["message"])
        return


def _say(address: str, me: Answer, deadline: float, timeout: float) -> dict[str, Any]:
    """One try. Raises OSError if process 0 is not there, or goes away without an answer."""
    left = max(deadline - time.monotonic(), _RETRY)
    with socket.create_connection(split_address(address), timeout=left) as connection:
        connection.sendall(me.to_line())
        # Process 0 is there and decides; it may have come later than we did, and waits as long for
        # the others.
        answer_by = time.monotonic() + timeout + _GRACE
        line = b""
        while b"\n" not in line:
            connection.settimeout(max(answer_by - time.monotonic(), _RETRY))
            data = connection.recv(_MAX_LINE)
            if not data:
                raise ConnectionError("the connection closed before the roll was complete")
            line += data
        return json.loads(line)


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(_MAX_LINE)
    except OSError:
        return b""


def _send(connection: socket.socket, outcome: dict[str, Any]) -> None:
    try:
        connection.settimeout(_GRACE)
        connection.sendall(json.dumps(outcome).encode() + b"\n")
    except OSError:
        pass  # It has gone; it, or whoever waits for it, will say so.
