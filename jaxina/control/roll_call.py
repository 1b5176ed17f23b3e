"""A process's side of the roll: it tells the job's coordinator that it is there (see roll.py)."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import threading
import time
from typing import Any

from jaxina.config import split_address
from jaxina.control.topology import Place
from jaxina.errors import NeverJoinedError, from_code

MAX_LINE = 65536
# How long a process waits for the coordinator's word beyond its own patience, and the coordinator for a process to take it.
GRACE = 5.0
_MOST_PATIENCE = 86400.0  # seconds
_RETRY = 0.05


@dataclasses.dataclass(frozen=True)
class Answer:
    """One process's line in the roll; `patience` is how many seconds it waits for the others."""

    rank: int
    processes: int
    place: Place
    settings: dict[str, Any]
    patience: float

    def to_line(self) -> bytes:
        return json.dumps(dataclasses.asdict(self)).encode() + b"\n"

    @staticmethod
    def from_line(line: bytes) -> Answer:
        """Raises ValueError, KeyError, TypeError, OverflowError or RecursionError if that is no answer."""
        data = json.loads(line)
        patience = float(data["patience"])
        if not 0 < patience <= _MOST_PATIENCE:
            raise ValueError(f"a patience of {patience} s")
        return Answer(
            int(data["rank"]),
            int(data["processes"]),
            Place(**data["place"]),
            dict(data["settings"]),
            patience,
        )


class Roommates:
    """The line to the coordinator once the roll is complete: by it a process knows which others have ended."""

    def __init__(self, connection: socket.socket):
        self._connection = connection
        self._ended: set[int] = set()
        connection.settimeout(None)
        threading.Thread(target=self._listen, name="jaxina-roommates", daemon=True).start()

    def end(self) -> None:
        """At the process's end, as its death would do."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def forget(self) -> None:
        """In a child that was forked: the line is the parent's, and must end with it."""
        with contextlib.suppress(OSError):
            os.close(self._connection.detach())

    def ended(self) -> set[int]:
        """Ranks of the processes that have ended."""
        return set(self._ended)

    def _listen(self) -> None:
        with (
            contextlib.suppress(OSError, ValueError, KeyError),
            self._connection,
            self._connection.makefile("rb") as lines,
        ):
            for line in lines:
                self._ended.add(int(json.loads(line)["ended"]))


def answer_roll(address: str, me: Answer) -> tuple[str, Roommates]:
    """Waits until all processes are there.

    Returns:
      HOST:PORT of the service of jax.distributed, and the line to the coordinator, which stays open as long as the
      process lives.

    Raises:
      NeverJoinedError: some did not come in time, and are named; or no coordinator answers.
      RankTakenError: another process has this rank.
      MismatchError: another number of processes, or other settings.
    """
    deadline = time.monotonic() + me.patience
    while True:
        try:
            outcome, connection = _say(address, me, deadline)
        except OSError as error:
            if time.monotonic() >= deadline:
                raise NeverJoinedError(
                    f"nothing answers at JAXINA_COORDINATOR={address} within {me.patience:g} s ({error}); `jaxina run` "
                    "or `jaxina coordinator` starts what the processes find each other by"
                ) from error
            time.sleep(_RETRY)
            continue
        if "error" in outcome:
            connection.close()
            raise from_code(outcome["error"], outcome["message"])
        return outcome["service"], Roommates(connection)


def _say(address: str, me: Answer, deadline: float) -> tuple[dict[str, Any], socket.socket]:
    """One try. Raises OSError if the coordinator is not there, or goes away without an answer."""
    left = max(deadline - time.monotonic(), _RETRY)
    connection = socket.create_connection(split_address(address), timeout=left)
    try:
        connection.sendall(me.to_line())
        # Others may have come later than we did. The coordinator knows how long each of us waits, and decides.
        answer_by = time.monotonic() + me.patience + GRACE
        line = b""
        while not line.endswith(b"\n"):
            connection.settimeout(max(answer_by - time.monotonic(), _RETRY))
            data = connection.recv(1)  # what follows the line is for others to read
            if not data:
                raise ConnectionError("the connection closed before the roll was complete")
            line += data
        return json.loads(line), connection
    except BaseException:
        connection.close()
        raise
