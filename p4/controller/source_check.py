"""Enters the addresses that UDP workers send from (p4/tofino/source_check.p4)."""

from __future__ import annotations

from jaxina.controller.pool import Job, Station
from jaxina.controller.tables import Entry, Tables

_CONTROL = "Ingress.source_check"


class SourceCheck:
    def __init__(self, tables: Tables):
        self._tables = tables

    def add(self, job: Job, worker: int, station: Station) -> None:
        self._tables.insert([_entry(job, worker, station)])

    def remove(self, job: Job, worker: int) -> None:
        self._tables.delete([_entry(job, worker, job.stations[worker])])


def _entry(job: Job, worker: int, station: Station) -> Entry:
    key = {"rid": job.rid(worker), "address": station.ip, "port": station.udp_port}
    return Entry(f"pipe.{_CONTROL}.sources", key, action=f"{_CONTROL}.heard")
