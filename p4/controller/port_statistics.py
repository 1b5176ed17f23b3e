"""Reads the chip's own counters of ports: of their MACs, and of the traffic manager between ingress and egress.

All packets of a port take the port's queue 0, because the program chooses no other. So the traffic manager's counters
of a port are those of its queue.
"""

from __future__ import annotations

import logging

from jaxina.controller.chip import Chip, recirculation_port
from jaxina.controller.tables import Entry, Tables
from jaxina.errors import SystemCallError

_log = logging.getLogger("jaxina.switch")

_PORTS, _UP, _NUMBER = "$PORT", "$PORT_UP", "$DEV_PORT"
_MAC, _INGRESS, _EGRESS = "$PORT_STAT", "tf1.tm.counter.ig_port", "tf1.tm.counter.eg_port"
_CELL = 80  # bytes of the chip's buffer
# Our names, by the chip's.
_OF_A_MAC = {
    "$FramesReceivedOK": "packets_received",
    "$OctetsReceivedinGoodFrames": "bytes_received",
    "$FramesTransmittedOK": "packets_sent",
    "$OctetsTransmittedwithouterror": "bytes_sent",
    "$FrameswithanyError": "errors",
    "$FramesReceivedoftypePAUSE": "pauses_received",
    "$FramesTransmittedPause": "pauses_sent",
    "$PriorityPauseFrames": "priority_pauses_received",
    "$FramesTransmittedPriPause": "priority_pauses_sent",
}
_DROPS, _USED, _MOST_USED = "drop_count_packets", "usage_cells", "watermark_cells"


class PortStatistics:
    def __init__(self, tables: Tables, chip: Chip):
        self._tables = tables
        self._with_mac = sorted({*chip.attached, *(port.number for port in chip.loopbacks)})
        self._all = [*self._with_mac, *(recirculation_port(pipe) for pipe in range(chip.size.pipes))]
        self._refused = False

    def read(self) -> dict[int, dict[str, int]]:
        """Returns the counters of each port that the switch's file names and of each recirculation port, and whether
        its link is up. Returns nothing if the chip's driver refuses; that is logged once."""
        if self._refused:
            return {}
        try:
            return self._read()
        except SystemCallError as error:
            self._refused = True
            _log.warning("the status will have no counters of ports: %s", error)
            return {}

    def _read(self) -> dict[int, dict[str, int]]:
        links = {entry.key[_NUMBER]: entry.data.get(_UP, False) for entry in self._tables.entries(_PORTS, (_UP,))}
        ports: dict[int, dict[str, int]] = {port: {"up": port not in self._with_mac} for port in self._all}
        for port, counted in zip(self._with_mac, self._of(_MAC, "$DEV_PORT", self._with_mac, *_OF_A_MAC), strict=True):
            ports[port] = {"up": bool(links.get(port)), **{_OF_A_MAC[name]: n for name, n in counted.items()}}
        for port, counted in zip(self._all, self._of(_INGRESS, "dev_port", self._all, _DROPS), strict=True):
            ports[port]["dropped_at_ingress"] = counted[_DROPS]
        egress = self._of(_EGRESS, "dev_port", self._all, _DROPS, _USED, _MOST_USED)
        for port, counted in zip(self._all, egress, strict=True):
            ports[port]["dropped_at_egress"] = counted[_DROPS]
            ports[port]["queue_bytes"] = _CELL * counted[_USED]
            ports[port]["longest_queue_bytes"] = _CELL * counted[_MOST_USED]
        return ports

    def _of(self, table: str, key: str, ports: list[int], *fields: str) -> list[dict[str, int]]:
        return self._tables.read([Entry(table, {key: port}, dict.fromkeys(fields, 0)) for port in ports])
