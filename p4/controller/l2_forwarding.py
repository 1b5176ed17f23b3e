"""Enters where all other traffic goes (p4/tofino/l2_forwarding.p4)."""

from __future__ import annotations

from jaxina.controller.chip import Chip
from jaxina.controller.multicast import FLOOD
from jaxina.controller.tables import Entry, Tables

_CONTROL = "Ingress.l2_forwarding"
_BROADCAST = 2**48 - 1


class L2Forwarding:
    def __init__(self, tables: Tables):
        self._tables = tables

    def fill(self, chip: Chip) -> None:
        """Sends frames for a host to its port, and broadcasts to all ports but the one they came in on."""
        hosts = [_entry(host.mac, "forward", port=host.port) for host in chip.hosts]
        self._tables.insert([*hosts, _entry(_BROADCAST, "flood", group=FLOOD)])


def _entry(destination: int, action: str, **data: int) -> Entry:
    key = {"destination": destination}
    return Entry(f"pipe.{_CONTROL}.stations", key, data, f"{_CONTROL}.{action}")
