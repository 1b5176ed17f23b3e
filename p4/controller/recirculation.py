"""Enters the way of packets that need more than one pass (p4/tofino/recirculation.p4)."""

from __future__ import annotations

from jaxina.controller.chip import Size, recirculation_port
from jaxina.controller.tables import Entry, Tables

_CONTROL = "Ingress.recirculation"
_LANES = 4
# The pipe that each step is in, from step 1 on. Words are added on the way out. On the way back they are read, half of
# a pipe's words at a time.
_STEPS = {"one-pipe": (0,), "four-pipes": (1, 2, 3, 3, 2, 2, 1, 1, 0, 0)}


class Recirculation:
    def __init__(self, tables: Tables):
        self._tables = tables

    def fill(self, size: Size) -> None:
        self._tables.insert(
            [
                Entry(
                    f"pipe.{_CONTROL}.next_pass",
                    {"step": step, "lane": lane},
                    {"port": recirculation_port(pipe)},
                    f"{_CONTROL}.to_port",
                )
                for step, pipe in enumerate(_STEPS[size.name], 1)
                for lane in range(_LANES)
            ]
        )
