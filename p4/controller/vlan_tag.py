"""Enters the 802.1Q tags of ports (p4/tofino/vlan_tag.p4)."""

from __future__ import annotations

from jaxina.controller.chip import Chip
from jaxina.controller.tables import Entry, Tables

_CONTROL = "Egress.vlan_tag"


class VlanTag:
    def __init__(self, tables: Tables):
        self._tables = tables

    def fill(self, chip: Chip) -> None:
        """Lets the switch's packets for workers leave with the tag of their port, where the switch's file names one."""
        tags = [(port.number, port.tag) for port in chip.ports if port.tag is not None]
        if tags:
            self._tables.insert(
                [
                    Entry(f"pipe.{_CONTROL}.ports", {"egress_port": port}, {"tci": tag}, f"{_CONTROL}.tag")
                    for port, tag in tags
                ]
            )
