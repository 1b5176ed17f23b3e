"""Finds a switch: that it answers, and its numeric address, which packets need."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from jaxina.config import split_address
from jaxina.control.client import SwitchClient
from jaxina.control.servers import Switch
from jaxina.control.typed_status import unreachable

# How many seconds a switch may take to answer. A switch that is just starting needs a few. But a switch that is not
# there should be noticed before the whole join deadline has passed.
ANSWER_TIMEOUT = 5.0


def find(client: SwitchClient) -> Switch:
    """Asks a switch where it takes packets, and finds its numeric address.

    Raises:
      SwitchUnreachableError: there is no such host, or no switch answers.
      JaxinaError: the switch refuses, for example because its token is missing.
    """
    candidates = resolved(client.address)
    status = client.status()
    host = answering(candidates, client.address)
    return Switch(client.address, host, tuple(status.data_ports), status.upstream)


def resolved(address: str) -> list[str]:
    """The numeric addresses of HOST:PORT's host.

    Raises:
      SwitchUnreachableError: there is no such host.
    """
    host, port = split_address(address)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except OSError as error:
        raise unreachable(address, f"unknown host: {error.strerror}") from error
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def answering(candidates: Sequence[str], address: str) -> str:
    """The candidate at which the control service answers.

    A name may have several addresses, as `localhost` has 127.0.0.1 and ::1, and a switch may listen at only one of
    them.
    """
    _, port = split_address(address)
    for candidate in candidates[:-1]:
        try:
            with socket.create_connection((candidate, port), timeout=ANSWER_TIMEOUT):
                return candidate
        except OSError:
            continue
    return candidates[-1]
