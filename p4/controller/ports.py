"""Enables the chip's ports. Their table is a fixed one of the chip."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from jaxina.controller.chip import FECS, SPEEDS, Chip, FlowControl, Port
from jaxina.controller.tables import Entry, Tables, Value

_log = logging.getLogger("jaxina.switch")

_TABLE, _NUMBER, _LOOPBACK = "$PORT", "$DEV_PORT", "$LOOPBACK_MODE"
_DEFAULTS: Mapping[str, Value] = {
    _LOOPBACK: "BF_LPBK_NONE",
    "$TX_PFC_EN_MAP": 0,
    "$RX_PFC_EN_MAP": 0,
    "$TX_PAUSE_FRAME_EN": False,
    "$RX_PAUSE_FRAME_EN": False,
}
_FIELDS = ("$SPEED", "$FEC", "$PORT_ENABLE", *_DEFAULTS)


class Ports:
    def __init__(self, tables: Tables):
        self._tables = tables

    def fill(self, chip: Chip) -> None:
        """Enables the ports of the switch's file.

        A port that is already as the file wants it stays up. Ports that the file does not name stay as they are.
        """
        pauses = _pauses(chip.flow_control)
        wanted = {port.number: {**_settings(port), **pauses} for port in chip.ports}
        wanted |= {port.number: {**_settings(port), _LOOPBACK: "BF_LPBK_MAC_NEAR"} for port in chip.loopbacks}
        there = {
            number: {**_DEFAULTS, **entry.data}
            for entry in self._tables.entries(_TABLE, _FIELDS)
            if isinstance(number := entry.key[_NUMBER], int)
        }
        for number in sorted(there.keys() - wanted.keys()):
            _log.warning("port %d is set up in the chip, but the switch's file does not name it", number)
        different = [n for n in wanted if n in there and there[n] != {**_DEFAULTS, **wanted[n]}]
        if different:
            self._tables.delete([_entry(number, {}) for number in different])
        new = [number for number in wanted if number not in there or number in different]
        if new:
            self._tables.insert([_entry(number, wanted[number]) for number in new])


def _entry(number: int, data: Mapping[str, Value]) -> Entry:
    return Entry(_TABLE, {_NUMBER: number}, data)


def _settings(port: Port) -> dict[str, Value]:
    return {"$SPEED": SPEEDS[port.speed], "$FEC": FECS[port.fec], "$PORT_ENABLE": True}


def _pauses(flow_control: FlowControl | None) -> dict[str, Value]:
    """Returns the fields that let a port send pause frames and obey those that it receives."""
    if flow_control is None:
        return {}
    if flow_control.priority is None:
        return {"$TX_PAUSE_FRAME_EN": True, "$RX_PAUSE_FRAME_EN": True}
    return {"$TX_PFC_EN_MAP": 1 << flow_control.priority, "$RX_PFC_EN_MAP": 1 << flow_control.priority}
