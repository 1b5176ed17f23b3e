"""Enables the chip's ports. Their table is a fixed one of the chip."""

from __future__ import annotations

from jaxina.controller.chip import FECS, SPEEDS, Chip, Port
from jaxina.controller.tables import Entry, Tables


class Ports:
    def __init__(self, tables: Tables):
        self._tables = tables

    def fill(self, chip: Chip) -> None:
        self._tables.insert(
            [
                *(Entry("$PORT", {"$DEV_PORT": port.number}, _settings(port)) for port in chip.ports),
                *(
                    Entry("$PORT", {"$DEV_PORT": port.number}, _settings(port) | {"$LOOPBACK_MODE": "BF_LPBK_MAC_NEAR"})
                    for port in chip.loopbacks
                ),
            ]
        )


def _settings(port: Port) -> dict[str, str | bool]:
    return {"$SPEED": SPEEDS[port.speed], "$FEC": FECS[port.fec], "$PORT_ENABLE": True}
