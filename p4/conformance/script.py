"""How scenarios are written: a script sends packets to the interpreter and notes down what it
says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from conformance.specification import Aggregator
from conformance.vector import (
    Comment,
    Count,
    Job,
    Packet,
    Receive,
    Send,
    State,
    Value,
    Vector,
    line_of,
)
from conformance.words import run


class Script:
    """`size` is the words of a block, with which every scenario is generated."""

    def __init__(
        self,
        name: str,
        size: int,
        about: str,
        needs: Sequence[str] = (),
        aggregator: Callable[[], Aggregator] = Aggregator,
    ):
        self.size = size
        self.vector = Vector(name, set(needs), [])
        self.aggregator = aggregator()
        for line in about.strip().splitlines():
            self.say(line.strip())

    def say(self, text: str) -> None:
        self.vector.steps.append(Comment(text))

    def job(
        self,
        name: str,
        workers: int,
        slots: int = 2,
        blocks: int = 1,
        first_epoch: int = 0,
        mtu: int = 0,
    ) -> None:
        job = Job(name, workers, slots, self.size, blocks, first_epoch, mtu)
        self.aggregator.add_job(job)
        self.vector.steps.append(job)

    def packet(
        self,
        worker: int,
        epoch: int = 0,
        *,
        job: str = "A",
        slot: int = 0,
        words: Sequence[int] | None = None,
        exponents: Sequence[int] | None = None,
        kind: str = "update",
        **changes: Value,
    ) -> Packet:
        """An update whose words tell the worker, epoch and slot, unless given."""
        if words is None:
            words = numbers(worker, epoch, slot, self.size)
        if exponents is None:
            exponents = (100 + worker,)
        fields: dict[str, Value] = {
            "job": job,
            "secret": job,
            "worker": worker,
            "slot": slot,
            "epoch": epoch % 2**32,
            "fingerprint": 0x1000 + epoch % 2**16,
            "exponents": tuple(exponents),
            "words": tuple(words),
        }
        return Packet(kind, {**fields, **changes})

    def send(self, endpoint: str, packet: Packet, verdict: str) -> list[Receive]:
        """Sends; the author's `verdict` and the interpreter's must agree."""
        replies = self.aggregator.on_packet(endpoint, packet)
        if self.aggregator.verdict != verdict:
            raise AssertionError(
                f"{self.vector.name}: {line_of(Send(endpoint, packet))} is {self.aggregator.verdict}, not {verdict}"
            )
        self.vector.steps += [Send(endpoint, packet), *replies]
        return replies

    def update(self, worker: int, epoch: int, verdict: str, **changes: Value) -> list[Receive]:
        """An update of job A, or `job`, from its worker's own endpoint."""
        job = str(changes.get("job", "A"))
        packet = self.packet(worker, epoch, **changes)  # type: ignore[arg-type]
        return self.send(f"{job}{worker}", packet, verdict)

    def whole_pass(self, epoch: int, workers: int, **changes: Value) -> None:
        """All workers' updates in their order."""
        for worker in range(workers):
            verdict = "first" if worker == 0 else "added"
            self.update(worker, epoch, "complete" if worker == workers - 1 else verdict, **changes)

    def state(self, job: str = "A", slot: int = 0) -> None:
        """What the registers of a slot hold now."""
        for number, version in sorted(self.aggregator.slots[job, slot].versions.items()):
            fields: dict[str, Value] = {
                "slot": slot,
                "version": number,
                "epoch": version.epoch,
                "count": version.count,
                "seen": tuple(sorted(version.seen)),
                "exponents": tuple(version.exponents),
                "words": tuple(version.words),
            }
            self.vector.steps.append(State(job, fields))

    def counts(self) -> None:
        for job, counts in self.aggregator.counts.items():
            if counts:
                self.vector.steps.append(Count(job, dict(counts)))

    def finish(self) -> Vector:
        """Ends with all counters."""
        self.say("the counters")
        self.counts()
        return self.vector


def numbers(worker: int, epoch: int, slot: int, count: int) -> list[int]:
    """Words from which one can read whose they are; sums of them are runs as well."""
    return run(1000 * (worker + 1) + 10 * (epoch % 100) + slot, worker + 1, count)
