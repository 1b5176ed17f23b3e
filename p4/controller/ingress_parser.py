"""Which packets are for the aggregator at all: p4/tofino/ingress_parser.p4."""

from __future__ import annotations

import ipaddress

from jaxina.controller.chip import Chip
from jaxina.controller.tables import Entry, Tables, Ternary

_ADDRESSES = "pipe.IngressParser.switch_addresses"


class IngressParser:
    def __init__(self, tables: Tables):
        self._tables = tables

    def fill(self, chip: Chip) -> None:
        """Until the parser knows the switch's address, it takes workers' packets for other traffic."""
        address = int(ipaddress.IPv4Address(chip.address))
        self._tables.insert([Entry(_ADDRESSES, {"f1": Ternary(address, 0xFFFFFFFF)})])
