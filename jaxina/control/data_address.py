"""Where packets are sent: hosts and UDP ports."""

from __future__ import annotations

import ipaddress

from jaxina.errors import InvalidArgumentError

Addresses = list[tuple[str, int]]


def check_address(host: str, port: int, whose: str) -> None:
    """Checks that packets can be sent there.

    Args:
      host: should be a numeric address of a host.
      port: should be a UDP port.
      whose: whose address it is, for the message.

    Raises:
      InvalidArgumentError: they cannot.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise InvalidArgumentError(f"{whose} is at {host[:64]!r}, which is not a numeric address") from None
    if address.is_multicast or address.is_unspecified or not 0 < port < 65536:
        raise InvalidArgumentError(f"{whose} cannot be at {host}, port {port}: packets cannot be sent there")
