"""Scripts, from which scenarios are made: a script sends packets to the specification and records its replies."""

from __future__ import annotations

import textwrap
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

_COMMENT_WIDTH = 118  # characters, so that a comment's line has at most 120


class Script:
    """Records one vector.

    Args:
      name: the vector's name.
      size: the words of a block. Every scenario is generated for several sizes.
      about: what the scenario is about; it becomes the vector's first comment.
      needs: the abilities that a device must have to be sent this vector.
      aggregator: makes the specification.
    """

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
        for line in textwrap.wrap(" ".join(about.split()), _COMMENT_WIDTH):
            self.say(line)

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
        narrow: bool = False,
    ) -> None:
        job = Job(name, workers, slots, self.size, blocks, first_epoch, mtu, int(narrow))
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
        form: str = "",
        seed: int | None = None,
        **changes: Value,
    ) -> Packet:
        """Returns an update. Unless words are given, they tell the worker, epoch and slot. With a seed, they are narrow
        words of the format `form`."""
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
            **({"format": form} if form else {}),
            "exponents": tuple(exponents),
            **({} if seed is None else {"seed": seed}),
            "words": tuple(words),
        }
        return Packet(kind, {**fields, **changes})

    def send(self, endpoint: str, packet: Packet, verdict: str) -> list[Receive]:
        """Sends a packet and records the replies. The author's `verdict` must be that of the specification."""
        replies = self.aggregator.on_packet(endpoint, packet)
        if self.aggregator.verdict != verdict:
            raise AssertionError(
                f"{self.vector.name}: {line_of(Send(endpoint, packet))} is {self.aggregator.verdict}, not {verdict}"
            )
        self.vector.steps += [Send(endpoint, packet), *replies]
        return replies

    def update(self, worker: int, epoch: int, verdict: str, **changes: Value) -> list[Receive]:
        """Sends an update of job A, or of `job`, from its worker's own endpoint."""
        job = str(changes.get("job", "A"))
        packet = self.packet(worker, epoch, **changes)  # type: ignore[arg-type]
        return self.send(f"{job}{worker}", packet, verdict)

    def whole_pass(self, epoch: int, workers: int, **changes: Value) -> None:
        """Sends the updates of all workers, in their order."""
        for worker in range(workers):
            verdict = "first" if worker == 0 else "added"
            self.update(worker, epoch, "complete" if worker == workers - 1 else verdict, **changes)

    def state(self, job: str = "A", slot: int = 0) -> None:
        """Records what the registers of a slot hold now."""
        for number, version in sorted(self.aggregator.slots[job, slot].versions.items()):
            fields: dict[str, Value] = {
                "slot": slot,
                "version": number,
                "epoch": version.epoch,
                "count": version.count,
                "seen": tuple(sorted(version.seen)),
                "exponents": tuple(version.exponents),
                **version.form,
                "words": tuple(version.words),
            }
            self.vector.steps.append(State(job, fields))

    def counts(self) -> None:
        for job, counts in self.aggregator.counts.items():
            if counts:
                self.vector.steps.append(Count(job, dict(counts)))

    def finish(self) -> Vector:
        """Records all counters, and returns the vector."""
        self.say("the counters")
        self.counts()
        return self.vector


def numbers(worker: int, epoch: int, slot: int, count: int) -> list[int]:
    """Returns words that show to whom they belong. They are a run, and sums of them are runs, too."""
    return run(1000 * (worker + 1) + 10 * (epoch % 100) + slot, worker + 1, count)
