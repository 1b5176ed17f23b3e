"""The device that is the software switch that combines updates (tests/native/combiner_device.cc), in a process of its
own."""

from __future__ import annotations

from conformance import datagram
from conformance.combiner_specification import DEFAULT_ENTRIES, LIFETIME, children_of
from conformance.devices import COMBINER
from conformance.devices.command_process import CommandProcess
from conformance.devices.program import names_of
from conformance.vector import Job, Packet, Receive, Value, Vector

_NANOSECONDS = 1_000_000  # of a millisecond


class CombinerDevice:
    abilities = COMBINER
    block_sizes = frozenset({64})

    def __init__(self, path: str):
        self.name = path
        self._process = CommandProcess(path)

    def begin(self, vector: Vector) -> None:
        self._names = names_of(vector)
        self._now = 10 * LIFETIME
        self._came: list[Receive] = []
        self._process.ask("switch", vector.entries or DEFAULT_ENTRIES)
        for job in vector.jobs:
            self._add(job)
        self._before = {name: self._counts(name) for name in ("-", *(job.name for job in vector.jobs))}

    def send(self, endpoint: str, packet: Packet) -> None:
        text = datagram.encode(packet, self._names).hex()
        for _, to, hexadecimal in self._process.ask("packet", endpoint, self._now * _NANOSECONDS, text):
            self._came.append(Receive(to, datagram.decoded(bytes.fromhex(hexadecimal), self._names)))

    def wait(self, milliseconds: int) -> None:
        self._now += milliseconds

    def replies(self, expected: int) -> list[Receive]:
        came, self._came = self._came, []
        return came

    def state(self, job: str, slot: int, version: int) -> dict[str, Value | None]:
        raise NotImplementedError("a switch that combines updates has no slots")

    def counts(self, job: str) -> dict[str, int]:
        before = self._before[job]
        counted = {name: value - before.get(name, 0) for name, value in self._counts(job).items()}
        return {name: value for name, value in counted.items() if value}

    def end(self) -> None:
        """Does nothing: the next vector has a new switch."""

    def close(self) -> None:
        self._process.close()

    def _counts(self, job: str) -> dict[str, int]:
        number = "-" if job == "-" else self._names.jobs[job]
        return {name: int(value) for _, name, value in self._process.ask("counts", number)}

    def _add(self, job: Job) -> None:
        """Adds a job. Each child sends a direct packet, from which the switch learns the child's address."""
        children = children_of(job)
        senders = [
            f"{datagram.sender(sender_of(job, endpoint))}:{'+'.join(map(str, workers))}"
            for endpoint, workers in children.items()
        ]
        servers = [f"{job.name}s{number}" for number in range(job.servers)]
        ids = self._names.jobs[job.name], self._names.secrets[job.name]
        self._process.ask("job", *ids, job.workers, job.slots, job.block, *senders, "/", *servers)
        for endpoint in children:
            self.send(endpoint, introduction(job, endpoint))
        self._came.clear()


def sender_of(job: Job, endpoint: str) -> int | str:
    """Returns what a child's packets name as their worker: a number, or "g1"."""
    name = endpoint.removeprefix(job.name)
    return name if name.startswith("g") else int(name)


def introduction(job: Job, endpoint: str) -> Packet:
    """Returns a packet from a child that a switch sends on, whatever it knows: a direct one of a worker there."""
    fields: dict[str, Value] = {
        "job": job.name,
        "secret": job.name,
        "worker": children_of(job)[endpoint][0],
        "slot": 0,
        "epoch": 2**30,
        "fingerprint": 2,
        "transmission": "direct",
        "exponents": (0,),
        "words": (),
    }
    return Packet("update", fields)
