"""The device that is the software aggregator in a process of its own (tests/native/conformance_device.cc).

Datagrams go through a pipe, RDMA packets through the loopback interface.
"""

from __future__ import annotations

import zlib

from conformance import datagram, narrow
from conformance.devices import ABILITIES, probe
from conformance.devices.command_process import CommandProcess
from conformance.devices.links import Address, SocketLink
from conformance.devices.rdma import RdmaWorkers
from conformance.rdma_packet import End
from conformance.vector import Job, Packet, Receive, Value, Vector

_HOST = "127.0.0.1"


class ProgramDevice:
    abilities = ABILITIES | {"state", "first_epoch"}
    block_sizes = frozenset({64, 128, 256})

    def __init__(self, path: str):
        self.name = path
        self._process = CommandProcess(path)
        self._link = SocketLink()

    def begin(self, vector: Vector) -> None:
        self._names = names_of(vector)
        self._jobs = vector.jobs
        self._plane = "rdma " if "rdma" in vector.needs else ""
        self._came: list[Receive] = []
        self._before: dict[str, int] = {}
        for job in self._jobs:
            self._add(job)
        if self._plane:
            probing = Job(probe.NAME, 1, 1, self._jobs[0].block, 1, mtu=self._jobs[0].mtu)
            self._add(probing)
            self._workers = RdmaWorkers(self._link, self._names)
            for job in (probing, *self._jobs):
                self._workers.connect(job, self._connect)
            self._probe = probe.Probe(
                probing,
                self._link,
                lambda packet: self._workers.send(probe.ENDPOINT, packet),
                lambda sender, payload: self._workers.decode(probe.ENDPOINT, sender, payload).packet,
                self._take,
            )
        self._before = self.counts("-")

    def send(self, endpoint: str, packet: Packet) -> None:
        if self._plane:
            self._workers.send(endpoint, packet)
        else:
            text = datagram.encode(packet, self._names).hex()
            for _, to, hexadecimal in self._process.ask("packet", endpoint, text):
                self._came.append(Receive(to, datagram.decoded(bytes.fromhex(hexadecimal), self._names)))

    def replies(self, expected: int) -> list[Receive]:
        if self._plane:
            self._probe.settle()
        came, self._came = self._came, []
        return came

    def _take(self, endpoint: str, sender: Address, payload: bytes) -> None:
        self._came.append(self._workers.decode(endpoint, sender, payload))

    def state(self, job: str, slot: int, version: int) -> dict[str, Value | None]:
        answer = self._process.ask(self._plane + "state", self._names.jobs[job], slot, version)
        ((_, epoch, count, *lists, number),) = answer
        seen, exponents, words = (tuple(int(item) for item in text.split(",") if item != "-") for text in lists)
        return {
            "epoch": int(epoch),
            "count": int(count),
            "seen": seen,
            "exponents": exponents,
            **self._contents(list(narrow.FORMATS)[int(number)], words, self._workers_of(job) == int(count)),
        }

    def _workers_of(self, name: str) -> int:
        return next(job.workers for job in self._jobs if job.name == name)

    @staticmethod
    def _contents(form: str, words: tuple[int, ...], complete: bool) -> dict[str, Value]:
        """Returns the fields of a version's words. The sums of an incomplete pass are not packed."""
        if form == "int32":
            return {"words": words}
        fields = narrow.from_raw(form, words)
        if "seed" in fields and not complete:
            fields["words"] = words[narrow.SEED_WORDS :]
        return {"format": form, **fields}

    def counts(self, job: str) -> dict[str, int]:
        answer = self._process.ask(self._plane + "counts", "-" if job == "-" else self._names.jobs[job])
        counted = {name: int(value) for _, name, value in answer}
        if job == "-":
            counted = {name: n - self._before.get(name, 0) for name, n in counted.items()}
        return {name: value for name, value in counted.items() if value}

    def end(self) -> None:
        for job in self._jobs:
            self._process.ask(self._plane + "remove", self._names.jobs[job.name])
        if self._plane:
            self._process.ask("rdma remove", self._names.jobs[probe.NAME])
        self._link.close_endpoints()

    def close(self) -> None:
        self._link.close()
        self._process.close()

    def _connect(self, job: str, worker: int, end: End, mtu: int) -> End:
        ((_, port, psn, rkey, *qpns),) = self._process.ask(
            "rdma connect",
            *(self._names.jobs[job], worker, end.address, end.udp_port, mtu),
            *(end.psn, end.rkey, end.memory, *end.qpns),
        )
        return End(_HOST, int(port), tuple(map(int, qpns)), int(psn), int(rkey), 0)

    def _add(self, job: Job) -> None:
        numbers = (job.workers, job.slots, job.block, job.blocks, job.first_epoch, int(not job.narrow))
        id_and_secret = self._names.jobs[job.name], self._names.secrets[job.name]
        self._process.ask(self._plane + "job", *id_and_secret, *numbers)


def names_of(vector: Vector) -> datagram.Names:
    """Returns numbers for the vector's names. Any numbers would do."""
    jobs = {job.name: zlib.crc32(job.name.encode()) for job in vector.jobs}
    jobs |= {"unknown": 0xDEAD, probe.NAME: 0xFFFF}
    secrets = {name: number * 0x1_0000_0001 for name, number in jobs.items()}
    return datagram.Names(jobs, secrets | {"wrong": 0x0BAD})
