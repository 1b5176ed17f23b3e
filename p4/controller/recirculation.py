"""Enters the way of packets that need more than one pass (p4/tofino/recirculation.p4)."""

from __future__ import annotations

from jaxina.controller.chip import LANES, Chip
from jaxina.controller.port_load import steps
from jaxina.controller.tables import Entry, Tables

_CONTROL = "Ingress.recirculation"


class Recirculation:
    def __init__(self, tables: Tables):
        self._tables = tables

    def fill(self, chip: Chip) -> None:
        self._tables.insert(
            [
                Entry(
                    f"pipe.{_CONTROL}.next_pass",
                    {"step": number, "lane": lane},
                    {"port": chip.way(step.pipe, lane)},
                    f"{_CONTROL}.to_port",
                )
                for number, step in enumerate(steps(chip.size), 1)
                for lane in range(LANES)
            ]
        )
