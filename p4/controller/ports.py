"""Enables the chip's ports. Their table is a fixed one of the chip."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from jaxina.controller.chip import FECS, SPEEDS, Chip, Port
from jaxina.controller.tables import Entry, Tables, Value

_log = logging.getLogger("jaxina.switch")

_TABLE, _NUMBER, _LOOPBACK = "$PORT", "$DEV_PORT", "$LOOPBACK_MODE"
_NOT_IN_LOOPBACK = "BF_LPBK_NONE"


class Ports:
    def __init__(self, tables: Tables):
        self._tables = tables

    def fill(self, chip: Chip) -> None:
        """Enables the ports of the switch's file.

        A port that is already as the file wants it stays up. Ports that the file does not name stay as they are.
        """
        wanted = {port.number: _settings(port) for port in chip.ports}
        wanted |= {port.number: {**_settings(port), _LOOPBACK: "BF_LPBK_MAC_NEAR"} for port in chip.loopbacks}
        there = {
            number: {_LOOPBACK: _NOT_IN_LOOPBACK, **entry.data}
            for entry in self._tables.entries(_TABLE, ("$SPEED", "$FEC", "$PORT_ENABLE", _LOOPBACK))
            if isinstance(number := entry.key[_NUMBER], int)
        }
        for number in sorted(there.keys() - wanted.keys()):
            _log.warning("port %d is set up in the chip, but the switch's file does not name it", number)
        different = [n for n in wanted if n in there and there[n] != {_LOOPBACK: _NOT_IN_LOOPBACK, **wanted[n]}]
        if different:
            self._tables.delete([_entry(number, {}) for number in different])
        new = [number for number in wanted if number not in there or number in different]
        if new:
            self._tables.insert([_entry(number, wanted[number]) for number in new])


def _entry(number: int, data: Mapping[str, Value]) -> Entry:
    return Entry(_TABLE, {_NUMBER: number}, data)


def _settings(port: Port) -> dict[str, Value]:
    return {"$SPEED": SPEEDS[port.speed], "$FEC": FECS[port.fec], "$PORT_ENABLE": True}
