"""What the coordinator sends and receives on the connections of the roll call: lines of JSON, perhaps over TLS."""

from __future__ import annotations

import json
import socket
import ssl
from typing import Any

from jaxina.control.roll_call import GRACE, MAX_LINE
from jaxina.errors import JaxinaError

# A host that is gone without a word answers none of these probes: seconds until the first, between two, and how many.
# It takes 7 s, as for the sessions at a switch (`grpc_options`).
_PROBES = {socket.TCP_KEEPIDLE: 2, socket.TCP_KEEPINTVL: 1, socket.TCP_KEEPCNT: 5}


def notice_gone_host(connection: socket.socket) -> None:
    """From now on the connection ends within 7 s after the other host has gone."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _PROBES.items():
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def refuse(connection: socket.socket, error: JaxinaError) -> None:
    """Tells a process an error, and closes the connection."""
    send(connection, {"error": error.code, "message": error.message})
    connection.close()


def receive(connection: socket.socket) -> bytes | None:
    """Reads what has arrived. Empty: nothing will follow. None: a part of a TLS record, whose rest will follow."""
    try:
        return connection.recv(MAX_LINE)  # more than a record has, so that none waits where a selector does not see it
    except ssl.SSLWantReadError:
        return None
    except OSError:
        return b""


def send(connection: socket.socket, outcome: dict[str, Any]) -> None:
    """Sends a line. Does nothing if the other end has gone."""
    try:
        connection.settimeout(GRACE)
        connection.sendall(json.dumps(outcome).encode() + b"\n")
        connection.setblocking(False)
    except OSError:
        pass  # The process has gone. Its launcher or the processes that wait for it will report that.
