"""What a host tells about itself."""

from __future__ import annotations

import dataclasses
import os
import platform
import socket
from pathlib import Path
from typing import Any

from jaxina.config import installed
from jaxina.control.interfaces import addresses

_SYSCTLS = ("net.core.rmem_max", "net.core.wmem_max")


@dataclasses.dataclass(frozen=True)
class Facts:
    """A host.

    Attributes:
      node: its number.
      name: its own name.
      address: the numeric address that it uses for the others.
      interface: the interface with that address.
      mtu: of the interface, in bytes.
      udp: the port at which it answers probes.
      tcp: the port at which it takes connections.
      versions: of what must be the same everywhere, by name.
      limits: the kernel's limits, by name.
    """

    node: int
    name: str
    address: str
    interface: str
    mtu: int
    udp: int
    tcp: int
    versions: dict[str, str]
    limits: dict[str, int]

    def __str__(self) -> str:
        return f"node {self.node} ({self.name}, {self.address} of {self.interface})"

    @staticmethod
    def restored(record: dict[str, Any]) -> Facts:
        """Makes the facts from a record of `dataclasses.asdict`."""
        return Facts(**record)


def own_facts(node: int, address: str, udp: int, tcp: int) -> Facts:
    """This host's facts."""
    here = next((one for one in addresses() if one.address == address), None)
    interface, mtu = ("?", 0) if here is None else (here.interface, here.mtu)
    versions = {name: installed.version(name) for name in installed.ALIKE}
    versions["Python"] = ".".join(platform.python_version_tuple()[:2])
    limits = {name: _sysctl(name) for name in _SYSCTLS}
    return Facts(node, socket.gethostname(), address, interface, mtu, udp, tcp, versions, limits)


def _sysctl(name: str) -> int:
    try:
        return int(Path(os.sep, "proc", "sys", *name.split(".")).read_text())
    except (OSError, ValueError):
        return 0
