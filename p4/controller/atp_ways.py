"""Enters where packets go after ingress, and the addresses that they get (p4/tofino/atp_ways.p4, stations.p4)."""

from __future__ import annotations

from jaxina.controller.atp_pool import CombinedJob
from jaxina.controller.chip import LANES, Chip
from jaxina.controller.journal import Journal
from jaxina.controller.pool import Station
from jaxina.controller.tables import Entry, Tables

_WAYS, _STATIONS = "Ingress.atp_ways", "Egress.stations"
TABLES = (
    f"pipe.{_WAYS}.upstream",
    f"pipe.{_WAYS}.children",
    f"pipe.{_WAYS}.next_pass",
    f"pipe.{_STATIONS}.stations",
)
_STEPS = (1, 2)  # to read a sum, and to remember a pass that collided


class AtpWays:
    def __init__(self, tables: Tables, journal: Journal, chip: Chip):
        self._tables = tables
        self._journal = journal
        self._chip = chip

    def fill(self) -> None:
        """Enters the way of packets that come round."""
        pipe = self._chip.size.pool_pipe
        self._tables.insert(
            [
                _way("next_pass", {"step": step, "lane": lane}, "to_port", port=self._chip.way(pipe, lane))
                for step in _STEPS
                for lane in range(LANES)
            ]
        )

    def add_job(self, job: CombinedJob) -> None:
        """Enters the job's servers, or the switch above."""
        self._journal.insert(job, [_above(job, number, server) for number, server in enumerate(job.upstream)])
        self._journal.insert(job, [_up(job, slot) for slot in range(job.slots)])

    def add_child(self, job: CombinedJob, member: int) -> None:
        """Enters a child that has been heard from."""
        self._journal.insert(job, [_station(job.rid(member), job.stations[member])], member)
        self._journal.insert(job, [_down(job, member, worker) for worker in job.children[member].workers], member)


def _above(job: CombinedJob, number: int, server: Station) -> Entry:
    return _station(job.rid_above(number), server)


def _station(rid: int, station: Station) -> Entry:
    data = {"mac": station.mac, "ip": station.ip, "port": station.udp_port}
    return Entry(f"pipe.{_STATIONS}.stations", {"rid": rid}, data, f"{_STATIONS}.to_udp")


def _up(job: CombinedJob, slot: int) -> Entry:
    number = slot % len(job.upstream)
    key = {"job_index": job.index, "slot": slot}
    port = job.upstream[number].port
    return _way("upstream", key, "to_upstream", rid=job.rid_above(number), port=port, sender=job.sender)


def _down(job: CombinedJob, member: int, worker: int) -> Entry:
    key = {"job_index": job.index, "worker": worker}
    return _way("children", key, "to_station", rid=job.rid(member), port=job.stations[member].port)


def _way(table: str, key: dict[str, int], action: str, **data: int) -> Entry:
    return Entry(f"pipe.{_WAYS}.{table}", key, data, f"{_WAYS}.{action}")
