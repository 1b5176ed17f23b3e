"""Enters the addresses that UDP workers send from (p4/tofino/source_check.p4)."""

from __future__ import annotations

from jaxina.controller.journal import Journal
from jaxina.controller.pool import Job, Station
from jaxina.controller.tables import Entry

_CONTROL = "Ingress.source_check"


class SourceCheck:
    def __init__(self, journal: Journal):
        self._journal = journal

    def add(self, job: Job, worker: int, station: Station) -> None:
        key = {"rid": job.rid(worker), "address": station.ip, "port": station.udp_port}
        self._journal.insert(job, [Entry(f"pipe.{_CONTROL}.sources", key, action=f"{_CONTROL}.heard")], worker)
