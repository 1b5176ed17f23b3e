"""Addresses of hosts and RDMA devices as text."""

from __future__ import annotations

import re


def split_address(text: str) -> tuple[str, int]:
    """Splits ``HOST:PORT`` or ``[IPv6]:PORT`` into the host, without brackets, and the port.

    Raises:
      ValueError: the text is not such an address. The message says why.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: an IPv6 address needs brackets, such as [::1]:51000")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host, int(port)


RdmaDevice = tuple[str, int | None, int | None]  # name, port and GID index; "" and None mean any


def split_device(text: str) -> RdmaDevice:
    """Splits ``NAME[:PORT[:GID]]`` into an RDMA device's name, its port and the index of a GID.

    Raises:
      ValueError: the text is not such a device.
    """
    match = re.fullmatch(r"([^:\s]+)(?::(\d{1,3})(?::(\d{1,3}))?)?", text, re.ASCII)
    if match is None:
        raise ValueError(f"{text!r} is not NAME[:PORT[:GID]]")
    port, gid_index = (None if number is None else int(number) for number in match.groups()[1:])
    if (port is not None and not 1 <= port <= 255) or (gid_index is not None and gid_index > 255):
        raise ValueError(f"{text!r} has a port that is not from 1 to 255, or a GID index above 255")
    return match.group(1), port, gid_index
