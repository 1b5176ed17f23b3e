"""Enters the workers' addresses, of which every copy of a result gets one (p4/tofino/replies.p4)."""

from __future__ import annotations

from jaxina.controller.chip import Size
from jaxina.controller.pool import WORKER_BITS, Job, Station
from jaxina.controller.tables import Entry, Tables

_CONTROL = "Egress.replies"
_PLACES = 4  # places of a slot in a worker's memory (docs/rdma.md)


class Replies:
    def __init__(self, tables: Tables, size: Size):
        self._tables = tables
        self._size = size

    def add_udp(self, job: Job, worker: int, station: Station) -> None:
        data = {"mac": station.mac, "ip": station.ip, "port": station.udp_port}
        self._tables.insert([self._worker(job, worker, data, "to_udp")])

    def add_rdma(self, job: Job, worker: int, station: Station) -> None:
        """Enters an RDMA worker, whose queue pairs are in `job.ends` already."""
        data = {"mac": station.mac, "ip": station.ip, "port": station.udp_port}
        data["rkey"] = job.ends[worker].rkey
        self._tables.insert(self._queues(job, worker))
        self._tables.insert([self._worker(job, worker, data, "to_roce")])

    def remove(self, job: Job, worker: int) -> None:
        self._tables.delete([self._worker(job, worker, {}, "")])
        if worker in job.ends:
            self._tables.delete(self._queues(job, worker))

    def _worker(self, job: Job, worker: int, data: dict[str, int], action: str) -> Entry:
        key = {"rid": job.rid(worker)}
        return Entry(f"pipe.{_CONTROL}.workers", key, data, f"{_CONTROL}.{action}")

    def _queues(self, job: Job, worker: int) -> list[Entry]:
        end = job.ends[worker]
        entries = []
        for slot in range(job.slots):
            place = end.memory + slot * _PLACES * self._size.place_bytes  # the first of the four
            key = {
                "slot_index": job.slot_base + slot,
                "worker": job.rid(worker) % (1 << WORKER_BITS),
            }
            data = {
                "qpn": end.qpns[slot],
                "address_high": place >> 32,
                "address_low": place & 0xFFFFFFFF,
            }
            entries.append(Entry(f"pipe.{_CONTROL}.queues", key, data, f"{_CONTROL}.to_place"))
        return entries
