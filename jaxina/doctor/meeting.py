"""How the hosts meet: each tells the first one its facts, learns those of all, probes them, and tells what it found.

Messages are lines of JSON over TCP. With a token, who comes must know it: it answers a challenge with an HMAC, so the
token itself never travels.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import hmac
import json
import secrets
import socket
import time
from typing import Any

from jaxina.config import split_address
from jaxina.doctor.facts import Facts
from jaxina.doctor.findings import Pair
from jaxina.doctor.probes import Measured, Responder, measure
from jaxina.errors import (
    JaxinaError,
    JobRejectedError,
    MismatchError,
    NeverJoinedError,
    RankTakenError,
    from_code,
)

_WELCOME = 2.0  # seconds that a caller has to say who it is, while other callers wait
_RETRY = 0.1  # seconds between two attempts to connect
_MAX_LINE = 1 << 20
_PER_PAIR = 60.0  # seconds that the probes of one way may take


class _Line:
    """A connection that carries lines of JSON."""

    def __init__(self, connection: socket.socket, deadline: float):
        self._connection = connection
        self._rest = b""
        self.deadline = deadline

    def send(self, message: dict[str, Any]) -> None:
        self._wait_until_deadline()
        self._connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        line, end, self._rest = self._rest.partition(b"\n")
        while not end and len(line) < _MAX_LINE:
            self._wait_until_deadline()
            data = self._connection.recv(_MAX_LINE)
            if not data:
                break
            more, end, self._rest = data.partition(b"\n")
            line += more
            if not end and time.monotonic() > self.deadline:  # its parts may go on to come, each in time
                raise TimeoutError("timed out")
        message = json.loads(line) if end else None
        if not isinstance(message, dict):
            raise ConnectionError("it closed the connection, or is no `jaxina doctor`")
        return message

    def has_gone(self) -> bool:
        """Whether the other end has closed the connection. Before that it has nothing to say."""
        self._connection.setblocking(False)
        try:
            return not self._connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        self._connection.close()

    def _wait_until_deadline(self) -> None:
        self._connection.settimeout(max(self.deadline - time.monotonic(), 0.01))


def host_meeting(
    listener: socket.socket, nodes: int, own: Facts, responder: Responder, token: str | None, patience: float
) -> tuple[list[Facts], dict[Pair, Measured]]:
    """Takes part as node 0, at which the others meet.

    Args:
      listener: where they come.
      nodes: how many nodes there are.
      own: this host's facts.
      responder: this host's.
      token: what the others must know; None: nothing.
      patience: how many seconds to wait for them.

    Returns:
      The facts of all, by node, and what each has found about the way to each other one.

    Raises:
      NeverJoinedError: a node did not come, or did not tell what it found. The message names it.
      JobRejectedError: a node did not come, and a host was refused, as it does not know the token.
      RankTakenError: two came with one number.
      MismatchError: one expects another number of nodes.
    """
    deadline = time.monotonic() + patience
    hosts, lines = {0: own}, dict[int, _Line]()
    refused: JobRejectedError | None = None
    try:
        while len(hosts) < nodes:
            listener.settimeout(max(deadline - time.monotonic(), 0.01))
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                missing = ", ".join(str(node) for node in range(nodes) if node not in hosts)
                late = f"node {missing} of {nodes} did not come within {patience:g} s: "
                if refused is not None:
                    raise JobRejectedError(late + refused.message) from None
                raise NeverJoinedError(
                    f"{late}call `jaxina doctor` there too, with its own --node, and check that it reaches "
                    "--coordinator"
                ) from None
            _drop_gone(hosts, lines)
            line = _Line(connection, min(deadline, time.monotonic() + _WELCOME))
            try:
                facts = _welcome(line, nodes, hosts, token)
            except JobRejectedError as error:  # it need not be one of the nodes
                refused = error
                continue
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                line.close()
                continue
            hosts[facts.node], lines[facts.node] = facts, line
            _drop_gone(hosts, lines)
        in_order = [hosts[node] for node in range(nodes)]
        responder.secret = secrets.token_bytes(16)
        everybody = {"hosts": [dataclasses.asdict(one) for one in in_order], "secret": responder.secret.hex()}
        for line in lines.values():
            line.deadline = time.monotonic() + nodes * _PER_PAIR
            line.send(everybody)
        measured = _probe(own, in_order, responder.secret)
        for node, line in lines.items():
            try:
                told = line.receive()["measured"]
            except (OSError, ValueError, KeyError) as error:
                raise NeverJoinedError(f"{hosts[node]} did not tell what it found: {error}") from error
            measured.update({(node, int(target)): Measured(**way) for target, way in told.items()})
        return in_order, measured
    finally:
        for line in lines.values():
            with contextlib.suppress(OSError):
                line.send({"end": True})
            line.close()


def _drop_gone(hosts: dict[int, Facts], lines: dict[int, _Line]) -> None:
    """Forgets the nodes that have gone, so that they can come again."""
    for node in [node for node, line in lines.items() if line.has_gone()]:
        lines.pop(node).close()
        del hosts[node]


def _welcome(line: _Line, nodes: int, hosts: dict[int, Facts], token: str | None) -> Facts:
    challenge = secrets.token_hex(16)
    line.send({"challenge": challenge})
    answer = line.receive()
    if token is not None and not hmac.compare_digest(str(answer["proof"]), _proof(token, challenge)):
        error: JaxinaError = JobRejectedError(
            f"{answer['facts']['name']} does not know the token of node 0: set JAXINA_TOKEN to the same on all nodes"
        )
    elif answer["nodes"] != nodes:
        error = MismatchError(
            f"node {answer['facts']['node']} was called with --nodes {answer['nodes']}, node 0 with {nodes}"
        )
    else:
        facts = Facts.restored(answer["facts"])
        if facts.node not in hosts and 0 < facts.node < nodes:
            return facts
        error = RankTakenError(f"two hosts are node {facts.node}, or it is not below --nodes {nodes}: {facts}")
    line.send({"error": error.code, "message": error.message})
    line.close()
    raise error


def attend_meeting(
    address: str, nodes: int, own: Facts, responder: Responder, token: str | None, patience: float
) -> None:
    """Takes part as another node than 0: probes all others, and tells node 0 what it found.

    Args:
      address: where node 0 is, HOST:PORT.
      nodes, own, responder, token, patience: as for `host_meeting`.

    Raises:
      NeverJoinedError: node 0 does not answer, or went away.
      JaxinaError: node 0 refuses this one.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            connection = socket.create_connection(
                split_address(address), timeout=max(deadline - time.monotonic(), _RETRY)
            )
            break
        except OSError as error:
            if time.monotonic() >= deadline:
                raise NeverJoinedError(f"node 0 does not answer at {address} within {patience:g} s: {error}") from error
            time.sleep(_RETRY)
    line = _Line(connection, deadline)
    try:
        challenge = line.receive()["challenge"]
        proof = "" if token is None else _proof(token, challenge)
        line.send({"facts": dataclasses.asdict(own), "nodes": nodes, "proof": proof})
        told = line.receive()
        if "error" in told:
            raise from_code(told["error"], told["message"])
        responder.secret = bytes.fromhex(told["secret"])
        measured = _probe(own, [Facts.restored(one) for one in told["hosts"]], responder.secret)
        line.deadline = time.monotonic() + nodes * _PER_PAIR
        line.send({"measured": {target: dataclasses.asdict(way) for (_, target), way in measured.items()}})
        line.receive()  # until all have probed, this host answers
    except (OSError, ValueError, KeyError) as error:
        raise NeverJoinedError(f"node 0 at {address} went away: {error}") from error
    finally:
        line.close()


def _probe(own: Facts, hosts: list[Facts], secret: bytes) -> dict[Pair, Measured]:
    return {
        (own.node, other.node): measure(own.address, other.address, other.udp, other.tcp, own.mtu, secret)
        for other in hosts
        if other.node != own.node
    }


def _proof(token: str, challenge: str) -> str:
    return hmac.new(token.encode(), challenge.encode(), hashlib.sha256).hexdigest()
