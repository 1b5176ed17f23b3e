"""A process's side of the roll call: it tells the job's coordinator that it is there (see `jaxina.control.roll`)."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import socket
import ssl
import threading
import time
from typing import TYPE_CHECKING, Any

from jaxina.config import split_address
from jaxina.control.topology import Place
from jaxina.errors import NeverJoinedError, from_code

if TYPE_CHECKING:
    from jaxina.control.tls import Tls

MAX_LINE = 65536
MAX_LATE = 8192  # characters that a process may tell. Each becomes at most six bytes of JSON
END = b'{"end": true}'  # the line of a process that ends, and keeps the connection as long as it exists
# How many seconds, after its own patience, a process still waits for the coordinator's answer; and how many seconds the
# coordinator waits for a process to take its answer.
GRACE = 5.0
_MOST_PATIENCE = 86400.0  # seconds
_RETRY = 0.05  # seconds between two attempts to connect


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a process says in the roll call.

    Attributes:
      rank: its rank.
      processes: how many processes it expects.
      place: where it runs.
      settings: the settings on which all processes must agree.
      patience: how many seconds it waits for the others.
    """

    rank: int
    processes: int
    place: Place
    settings: dict[str, Any]
    patience: float

    def to_line(self) -> bytes:
        """Writes the answer as a line of JSON."""
        return json.dumps(dataclasses.asdict(self)).encode() + b"\n"

    @staticmethod
    def from_line(line: bytes) -> Answer:
        """Reads what `to_line` wrote. The line may come from a stranger.

        Raises:
          ValueError, KeyError, TypeError, OverflowError, RecursionError: the line is not an answer.
        """
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


@dataclasses.dataclass(frozen=True)
class JobView:
    """What the coordinator knows about its job.

    Attributes:
      processes: how many processes the job has.
      here: where each process runs that has come, by rank.
      ended: the ranks of those that have ended.
      leaving: those of them whose processes still exist, because their exit takes a while.
      late: what a process told last about collectives that are late; empty if none did.
      late_s: how many seconds ago.
    """

    processes: int
    here: dict[int, str]
    ended: list[int]
    leaving: list[int]
    late: str = ""
    late_s: float = 0.0


class CoordinatorConnection:
    """The connection to the coordinator after the roll call. It tells a process which others have ended."""

    def __init__(self, connection: socket.socket):
        self._connection = connection
        self._ended: set[int] = set()
        self._one_at_a_time = threading.Lock()  # a TLS connection must not read and write at once
        connection.setblocking(False)
        threading.Thread(target=self._listen, name="jaxina-coordinator", daemon=True).start()

    def end(self) -> None:
        """Tells the coordinator that this process ends, so that the others learn it. Its death would tell that too.

        The connection closes only when the process is gone, because until then JAX needs the coordinator's service.
        """
        self._say(END)

    def forget(self) -> None:
        """Drops the connection in a forked child. It belongs to the parent, and must close when the parent ends."""
        with contextlib.suppress(OSError):
            os.close(self._connection.detach())

    def tell(self, late: str) -> None:
        """Tells the coordinator who is late, in words. It shows that in `jaxina status`."""
        # Without a coordinator the message is in this process's output only.
        self._say(json.dumps({"late": late[:MAX_LATE]}).encode())

    def ended(self) -> set[int]:
        """Ranks of the processes that have ended."""
        return set(self._ended)

    def _say(self, line: bytes) -> None:
        with contextlib.suppress(OSError), self._one_at_a_time:
            self._connection.settimeout(GRACE)
            try:
                self._connection.sendall(line + b"\n")
            finally:
                self._connection.setblocking(False)

    def _listen(self) -> None:
        rest = b""
        with contextlib.suppress(OSError, ValueError, KeyError), self._connection:
            while data := self._receive():
                *lines, rest = (rest + data).split(b"\n")
                self._ended.update(int(json.loads(line)["ended"]) for line in lines)

    def _receive(self) -> bytes:
        """Waits for what the coordinator tells. Empty: it has gone, or this process ends."""
        arrives = select.poll()
        arrives.register(self._connection, select.POLLIN)
        while True:
            with self._one_at_a_time, contextlib.suppress(BlockingIOError, ssl.SSLWantReadError):
                return self._connection.recv(MAX_LINE)
            arrives.poll()


def answer_roll(address: str, me: Answer, tls: Tls | None = None) -> tuple[str, CoordinatorConnection]:
    """Answers the roll call, and waits until all processes have come.

    It calls again as long as no coordinator is there, or only that of a previous start, in which this rank has ended.

    Args:
      address: the coordinator's, HOST:PORT.
      me: what this process says.
      tls: this process's certificate; None: it calls without TLS.

    Returns:
      HOST:PORT of the service of jax.distributed; and the connection to the coordinator, which stays open as long as
      the process lives.

    Raises:
      NeverJoinedError: some processes did not come in time, and the message names them; or no coordinator answers, or
        only that of a previous start.
      RankTakenError: another process has this rank.
      MismatchError: the coordinator expects another number of processes, or processes have different settings.
      InvalidArgumentError: the rank is not below the number of processes, or two hosts have one name.
      AuthenticationError: only one end uses TLS, or one does not accept the other's certificate.
    """
    deadline = time.monotonic() + me.patience
    while True:
        why: OSError | None = None
        try:
            outcome, connection = _say(address, me, deadline, tls)
        except OSError as error:
            _raise_if_tls_failed(address, tls, error)
            why = error
            what = (
                f"no coordinator answered at JAXINA_COORDINATOR={address} within {me.patience:g} s ({error}). "
                "`jaxina coordinator` starts one; `jaxina run` starts its own"
            )
        else:
            if "service" in outcome:
                return outcome["service"], CoordinatorConnection(connection)
            connection.close()
            if "error" in outcome:
                raise from_code(outcome["error"], outcome["message"])
            what = (
                f"for the coordinator at JAXINA_COORDINATOR={address}, process {outcome['ended']} has ended, and no "
                f"other took its place within {me.patience:g} s: start all processes of the job again, with a new "
                "coordinator"
            )
        if time.monotonic() >= deadline:
            raise NeverJoinedError(what) from why
        time.sleep(_RETRY)


def look_at_job(address: str, patience: float, tls: Tls | None = None) -> JobView:
    """Asks a coordinator about its job.

    Args:
      address: the coordinator's, HOST:PORT.
      patience: how many seconds to wait for its answer.
      tls: this process's certificate; None: it calls without TLS.

    Raises:
      NeverJoinedError: no coordinator answers there.
      AuthenticationError: only one end uses TLS, or one does not accept the other's certificate.
    """
    try:
        with _connected(address, patience, tls) as connection:
            connection.sendall(json.dumps({"look": True}).encode() + b"\n")
            with connection.makefile("rb") as lines:
                told = json.loads(lines.readline())
        return JobView(**{**told, "here": {int(rank): place for rank, place in told["here"].items()}})
    except (OSError, ValueError, KeyError, TypeError) as error:
        _raise_if_tls_failed(address, tls, error)
        raise NeverJoinedError(
            f"no coordinator answers at {address} ({error}). `jaxina run` prints its address"
        ) from error


def _connected(address: str, timeout: float, tls: Tls | None) -> socket.socket:
    """Connects to the coordinator.

    Raises:
      OSError: nobody is there, or it does not accept this process, or this process does not accept it.
    """
    connection = socket.create_connection(split_address(address), timeout=timeout)
    if tls is None:
        return connection
    from jaxina.control.tls import NAME

    try:
        return tls.of_caller.wrap_socket(connection, server_hostname=NAME)
    except BaseException:
        connection.close()
        raise


def _raise_if_tls_failed(address: str, tls: Tls | None, error: Exception) -> None:
    """Raises AuthenticationError if a call failed because of TLS. What it raised itself does not say."""
    from jaxina.control.tls import why_refused

    if not isinstance(error, ConnectionRefusedError) and (why := why_refused(address, tls)):
        raise why from error


def _say(address: str, me: Answer, deadline: float, tls: Tls | None) -> tuple[dict[str, Any], socket.socket]:
    """Connects once and says `me`.

    Returns:
      The coordinator's answer, and the connection.

    Raises:
      OSError: the coordinator is not there, or goes away without an answer, or something else answers.
    """
    left = max(deadline - time.monotonic(), _RETRY)
    connection = _connected(address, left, tls)
    try:
        connection.sendall(me.to_line())
        # The coordinator decides when to give up, since it knows each process's patience. So wait longer than our own.
        answer_by = time.monotonic() + me.patience + GRACE
        line = b""
        while not line.endswith(b"\n"):
            connection.settimeout(max(answer_by - time.monotonic(), _RETRY))
            data = connection.recv(1)  # byte by byte: CoordinatorConnection must get everything that follows the line
            if not data:
                raise ConnectionError("the coordinator closed the connection before all processes had come")
            line += data
        return _outcome(line), connection
    except BaseException:
        connection.close()
        raise


def _outcome(line: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        outcome = json.loads(line)
        if isinstance(outcome, dict) and not outcome.keys().isdisjoint(("service", "error", "ended")):
            return outcome
    raise ConnectionError(f"what answers is no coordinator of jaxina, but says {line[:40]!r}")
