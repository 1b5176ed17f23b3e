"""Enters the workers' addresses, of which every copy of a result gets one (p4/tofino/replies.p4)."""

from __future__ import annotations

from jaxina.control.data_plane import QueuePairs
from jaxina.controller.chip import Size
from jaxina.controller.journal import Journal
from jaxina.controller.pool import WORKER_BITS, Job, Station
from jaxina.controller.tables import Entry

_CONTROL = "Egress.replies"
_PLACES = 4  # places of a slot in a worker's memory (docs/rdma.md)


class Replies:
    def __init__(self, journal: Journal, size: Size):
        self._journal = journal
        self._size = size

    def add_udp(self, job: Job, worker: int, station: Station) -> None:
        data = {"mac": station.mac, "ip": station.ip, "port": station.udp_port}
        self._journal.insert(job, [_worker(job, worker, data, "to_udp")], worker)

    def add_rdma(self, job: Job, worker: int, station: Station, end: QueuePairs) -> None:
        data = {"mac": station.mac, "ip": station.ip, "port": station.udp_port, "rkey": end.rkey}
        self._journal.insert(job, self._queues(job, worker, end), worker)
        self._journal.insert(job, [_worker(job, worker, data, "to_roce")], worker)

    def _queues(self, job: Job, worker: int, end: QueuePairs) -> list[Entry]:
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


def _worker(job: Job, worker: int, data: dict[str, int], action: str) -> Entry:
    key = {"rid": job.rid(worker)}
    return Entry(f"pipe.{_CONTROL}.workers", key, data, f"{_CONTROL}.{action}")
