"""Tells the parser which packets are for the aggregator, and which come round for another pass
(p4/tofino/ingress_parser.p4)."""

from __future__ import annotations

import ipaddress

from jaxina.controller.chip import Chip
from jaxina.controller.tables import Entry, Tables, Ternary

_ADDRESSES = "pipe.IngressParser.switch_addresses"
_LOOPBACKS = "pipe.IngressParser.loopback_ports"


class IngressParser:
    def __init__(self, tables: Tables):
        self._tables = tables

    def fill(self, chip: Chip) -> None:
        """Enters the ports in loopback, then the switch's address. Until then the parser takes workers' packets for
        other traffic."""
        address = int(ipaddress.IPv4Address(chip.address))
        self._tables.insert(
            [
                *(Entry(_LOOPBACKS, {"f1": Ternary(port.number, 0x1FF)}) for port in chip.loopbacks),
                Entry(_ADDRESSES, {"f1": Ternary(address, 0xFFFFFFFF)}),
            ]
        )
