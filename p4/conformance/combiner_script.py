"""Scripts of vectors for switches that combine updates."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.combiner_specification import Combiner, Entry, children_of
from conformance.script import Script, numbers
from conformance.specification import ALL
from conformance.vector import Job, Packet, Receive, Switch, Value, Vector, Wait


class CombinerScript(Script):
    """Records one vector. `about` is its first comment; `stamps` is the specification's."""

    def __init__(self, name: str, size: int, about: str, stamps: bool = False, needs: Sequence[str] = ()):
        super().__init__(name, size, about, ["combine", *needs])
        self.combiner = Combiner(stamps)
        self.aggregator = self.combiner  # type: ignore[assignment]  # both take packets and have a verdict

    def table(self, entries: int) -> None:
        """Says how many entries the switch has, before the first job."""
        self.combiner.entries = [Entry() for _ in range(entries)]
        self.vector.steps.append(Switch(entries))

    def combined_job(self, name: str, workers: int, slots: int = 1, servers: int = 1, below: str = "") -> None:
        job = Job(name, workers, slots, self.size, 1, servers=servers, below=below)
        self.combiner.add_job(job)
        self.vector.steps.append(job)

    def wait(self, milliseconds: int) -> None:
        self.combiner.now += milliseconds
        self.vector.steps.append(Wait(milliseconds))

    def of(
        self,
        worker: int | str,
        epoch: int,
        transmission: str = "first",
        *,
        job: str = "A",
        slot: int = 0,
        mark: bool = False,
        words: Sequence[int] | None = None,
        exponents: Sequence[int] | None = None,
        **changes: Value,
    ) -> Packet:
        """Returns the update of a worker or, for "g1", the sum of group 1."""
        below = {f"{job}{worker}": (worker,), **children_of(self.combiner.jobs.get(job, Job("", 0, 0, 0, 0)))}
        if words is None:
            of_each = [numbers(int(one), epoch, slot, self.size) for one in below[f"{job}{worker}"]]
            words = [sum(column) for column in zip(*of_each, strict=True)]
        if exponents is None:
            exponents = [max(100 + int(one) for one in below[f"{job}{worker}"])]
        kind = "combined" if isinstance(worker, str) else "update"
        said: dict[str, Value] = {"transmission": transmission, **({"mark": 1} if mark else {})}
        return self._made(kind, worker, epoch, job, slot, said, exponents, words, changes)

    def update(self, worker: int | str, epoch: int, verdict: str, transmission: str = "first", **changes):  # type: ignore[override]
        """Sends an update or a sum of job A, or of `job`, from its sender's own endpoint."""
        packet = self.of(worker, epoch, transmission, **changes)
        return self.send(f"{changes.get('job', 'A')}{worker}", packet, verdict)

    def whole_pass(self, epoch: int, workers: int, **changes) -> None:  # type: ignore[override]
        """Sends the first transmissions of all workers, in their order."""
        for worker in range(workers):
            verdict = "claim" if worker == 0 else "join"
            self.update(worker, epoch, "combine" if worker == workers - 1 else verdict, **changes)

    def result(
        self,
        epoch: int,
        verdict: str,
        *,
        job: str = "A",
        slot: int = 0,
        mark: bool = False,
        sender: str = "",
        **changes,
    ) -> list[Receive]:
        """Sends a server's result: the sum of all workers, from the slot's server."""
        workers = self.combiner.jobs[job].workers
        of_each = [numbers(worker, epoch, slot, self.size) for worker in range(workers)]
        words = [sum(column) for column in zip(*of_each, strict=True)]
        said: dict[str, Value] = {"mark": 1} if mark else {}
        packet = self._made("result", ALL, epoch, job, slot, said, [99 + workers], words, changes)
        server = slot % self.combiner.jobs[job].servers
        return self.send(sender or f"{job}s{server}", packet, verdict)

    def _made(
        self,
        kind: str,
        worker: Value,
        epoch: int,
        job: str,
        slot: int,
        said: dict[str, Value],
        exponents: Sequence[int],
        words: Sequence[int],
        changes: dict[str, Value],
    ) -> Packet:
        fields: dict[str, Value] = {
            "job": job,
            "secret": job,
            "worker": worker,
            "slot": slot,
            "epoch": epoch % 2**32,
            "fingerprint": 0x1000 + epoch % 2**16,
            **said,
            "exponents": tuple(exponents),
            "words": tuple(words),
        }
        return Packet(kind, {**fields, **changes})

    def finish(self) -> Vector:
        vector = super().finish()
        assert any(isinstance(step, Receive) for step in vector.steps), f"{vector.name}: nothing leaves the switch"
        return vector
