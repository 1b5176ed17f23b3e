"""Enters where all other traffic goes (p4/tofino/l2_forwarding.p4)."""

from __future__ import annotations

from jaxina.controller.chip import Chip
from jaxina.controller.multicast import FLOOD, exclusion_ids
from jaxina.controller.tables import Entry, Tables

_CONTROL = "Ingress.l2_forwarding"
_BROADCAST = 2**48 - 1


class L2Forwarding:
    def __init__(self, tables: Tables):
        self._tables = tables

    def fill(self, chip: Chip) -> None:
        """Sends frames for a host to its port, those for the switch itself to the controller's host, and broadcasts to
        all ports but the one they came in on."""
        self._tables.insert(
            [
                _entry("ports", "ingress_port", port, "came_in", exclusion_id=exclusion)
                for exclusion, port in exclusion_ids(chip)
            ]
        )
        hosts = [_station(host.mac, "forward", port=host.port) for host in chip.hosts]
        if chip.cpu is not None:
            hosts.append(_station(chip.cpu.mac, "forward", port=chip.cpu.port))
        self._tables.insert([*hosts, _station(_BROADCAST, "flood", group=FLOOD)])


def _station(mac: int, action: str, **data: int) -> Entry:
    return _entry("stations", "destination", mac, action, **data)


def _entry(table: str, key: str, match: int, action: str, **data: int) -> Entry:
    return Entry(f"pipe.{_CONTROL}.{table}", {key: match}, data, f"{_CONTROL}.{action}")
