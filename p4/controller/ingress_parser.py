"""Tells the parser which packets are for the aggregator (p4/tofino/ingress_parser.p4)."""

from __future__ import annotations

import ipaddress

from jaxina.controller.chip import Chip
from jaxina.controller.tables import Entry, Tables, Ternary

_ADDRESSES = "pipe.IngressParser.switch_addresses"


class IngressParser:
    def __init__(self, tables: Tables):
        self._tables = tables

    def fill(self, chip: Chip) -> None:
        """Enters the switch's address. Until then the parser takes workers' packets for other traffic."""
        address = int(ipaddress.IPv4Address(chip.address))
        self._tables.insert([Entry(_ADDRESSES, {"f1": Ternary(address, 0xFFFFFFFF)})])
