"""The slot protocol as a reference interpreter.

It says what docs/architecture.md, docs/reliability.md and docs/rdma.md say, in as few words as possible. The vectors
are generated from it, and no aggregator shares code with it.

The protocol is SwitchML's Algorithm 3 (Sapio et al., NSDI 2021) with an epoch in place of the version bit. A slot has
two versions, used by turns; pass e uses version e mod 2.
"""

from __future__ import annotations

import dataclasses

from conformance import narrow
from conformance.vector import Job, Packet, Receive, Value

EPOCHS = 2**32
ALL = "all"


@dataclasses.dataclass
class Version:
    """The registers of one version of a slot."""

    epoch: int  # the pass it holds
    count: int  # how many workers have contributed
    seen: set[int] = dataclasses.field(default_factory=set)  # which workers have contributed
    fingerprint: int = 0
    exponents: list[int] = dataclasses.field(default_factory=list)
    words: list[int] = dataclasses.field(default_factory=list)  # of narrow words, sums until the pass is complete
    form: dict[str, Value] = dataclasses.field(default_factory=dict)  # format and seed, if words are not 32 bits each
    check: list[int] = dataclasses.field(default_factory=list)  # RDMA jobs with a check

    def packet(self) -> Packet:
        """Returns the pass as it lies in a packet."""
        return Packet("pass", {**self.form, "words": tuple(self.words)})


class Slot:
    """A slot. It begins as if the two passes before its first one were complete."""

    def __init__(self, job: Job):
        before = [(job.first_epoch - back) % EPOCHS for back in (2, 1)]
        self.versions = {epoch % 2: Version(epoch, job.workers) for epoch in before}

    def version(self, epoch: int) -> Version:
        return self.versions[epoch % 2]


class Aggregator:
    """An aggregator: it takes packets and returns packets. `verdict` says what the last packet was."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.slots: dict[tuple[str, int], Slot] = {}
        self.homes: dict[tuple[str, int], str] = {}  # the endpoint that each worker was counted from
        self.ended: dict[str, int] = {}  # jobs that a mismatch ended
        self.counts: dict[str, dict[str, int]] = {"-": {}}
        self.verdict = ""

    def add_job(self, job: Job) -> None:
        self.jobs[job.name] = job
        self.counts[job.name] = {"updates": 0, "results": 0, "duplicates": 0}
        for slot in range(job.slots):
            self.slots[job.name, slot] = Slot(job)

    def on_packet(self, sender: str, packet: Packet) -> list[Receive]:
        """Takes a packet from the endpoint `sender`, and returns what the aggregator sends."""
        fields = packet.fields
        if "damage" in fields:
            return self._reject(rejection_of(str(fields["damage"])))
        if packet.kind != "update":
            return self._reject("not_an_update")
        name = str(fields["job"])
        if name not in self.jobs:
            return self._refuse(sender, packet, "unknown_job", "unknown_job", "-")
        if fields["secret"] != name:
            return self._refuse(sender, packet, "unknown_job", "wrong_secret", name)
        job = self.jobs[name]
        worker, slot = (fields[field] for field in ("worker", "slot"))
        if worker >= job.workers:
            return self._reject("bad_worker", name)
        if slot >= job.slots:
            return self._reject("bad_slot", name)
        if not narrow.fits(job, packet):
            return self._reject("too_large", name)
        if name in self.ended:
            self._reject("aborted", name)
            return [self._abort(sender, name, slot)]
        return self._apply(sender, packet)

    def _apply(self, sender: str, update: Packet) -> list[Receive]:
        """Runs Algorithm 3, with epochs. The line numbers below are the paper's."""
        job = self.jobs[str(update["job"])]
        worker, slot, epoch = int(update["worker"]), int(update["slot"]), int(update["epoch"])
        version = self.slots[job.name, slot].version(epoch)
        other = self.slots[job.name, slot].version(epoch + 1)
        age = (epoch - version.epoch) % EPOCHS  # half of all epochs or more: the update is older than the version
        counts = self.counts[job.name]

        if age == 0 and version.seen:
            sizes = len(update["words"]), len(update["exponents"]), narrow.format_of(update)
            held = len(version.words), len(version.exponents), narrow.format_of(version.packet())
            if update["fingerprint"] == version.fingerprint and sizes != held:
                return self._reject("mismatch", job.name)  # no worker sends this
            complete = version.count == job.workers
            if update["fingerprint"] != version.fingerprint:
                if complete:
                    return self._reject("stale", job.name)
                return self._end(sender, update)
            if worker in version.seen:  # line 18: retransmitted
                counts["duplicates"] += 1
                if complete:  # lines 19 to 21: only to the one that asks
                    self.verdict = "resend"
                    return [Receive(sender, self._result(job, slot, version))]
                self.verdict = "duplicate"  # line 23
                return [Receive(sender, self._pending(update, version))]
            version.words = narrow.combined(narrow.format_of(update), version.words, update["words"])  # line 11: add
            version.check = self._checks(version.check, update)
            for index, exponent in enumerate(update["exponents"]):
                version.exponents[index] = max(version.exponents[index], exponent)
            version.count += 1
            version.seen.add(worker)  # line 6
            self.verdict = "added"
        elif age == 0 or age >= EPOCHS // 2:
            return self._reject("stale", job.name)
        elif age == 2 and other.epoch == (epoch - 1) % EPOCHS and other.count == job.workers:
            # line 9: the first update of a new pass overwrites, because every worker has the version's old result
            version.epoch = epoch
            version.count = 1
            version.seen = {worker}
            version.fingerprint = int(update["fingerprint"])
            version.words = list(update["words"])
            version.exponents = list(update["exponents"])
            version.form = {name: update[name] for name in ("format", "seed") if name in update.fields}
            version.check = self._checks([], update)
            self.verdict = "first"
        else:
            return self._refuse(sender, update, "ahead", "ahead", job.name)

        counts["updates"] += 1
        self.homes[job.name, worker] = sender
        if version.count < job.workers:
            return []  # line 17
        if "seed" in version.form:
            version.words = narrow.rounded(version.words, job.workers, int(version.form["seed"]))
        self._seal(version)
        counts["results"] += 1  # lines 13 to 15: to all workers
        self.verdict = "complete"
        result = self._result(job, slot, version)
        return [Receive(self.homes[job.name, w], result) for w in range(job.workers)]

    def _checks(self, check: list[int], update: Packet) -> list[int]:
        """Returns a version's check with an update added to it. Datagrams have none."""
        return []

    def _seal(self, version: Version) -> None:
        """Finishes a complete version's check."""

    # ---- what is sent

    def _result(self, job: Job, slot: int, version: Version) -> Packet:
        form = {name: value for name, value in version.form.items() if name == "format"}
        seed = {name: value for name, value in version.form.items() if name == "seed"}
        return Packet(
            "result",
            {
                "job": job.name,
                "secret": job.name,
                "worker": ALL,
                "slot": slot,
                "epoch": version.epoch,
                "fingerprint": version.fingerprint,
                **form,
                "exponents": tuple(version.exponents),
                **seed,
                "words": tuple(version.words),
                **({"check": tuple(version.check)} if version.check else {}),
            },
        )

    def _pending(self, update: Packet, version: Version) -> Packet:
        return Packet("pending", {**_names(update), "seen": tuple(sorted(version.seen))})

    def _refuse(self, sender: str, update: Packet, code: str, reason: str, name: str) -> list[Receive]:
        self._reject(reason, name)
        return [Receive(sender, Packet("refused", {**_names(update), "code": code}))]

    def _end(self, sender: str, update: Packet) -> list[Receive]:
        """Ends the job, because two workers sum different things. All workers that have been heard from are told."""
        name = str(update["job"])
        self._reject("mismatch", name)
        self.ended[name] = int(update["slot"])
        told = [
            self._abort(home, name, self._last_slot(name, worker))
            for (job, worker), home in sorted(self.homes.items())
            if job == name
        ]
        return [*told, self._abort(sender, name, int(update["slot"]))]

    def _last_slot(self, name: str, worker: int) -> int:
        """Returns the slot in which the worker was counted. Scenarios of mismatches use only one slot."""
        slots = [
            slot
            for (job, slot), state in self.slots.items()
            if job == name and any(worker in v.seen for v in state.versions.values())
        ]
        assert len(slots) == 1
        return slots[0]

    def _abort(self, endpoint: str, name: str, slot: int) -> Receive:
        fields: dict[str, Value] = {"job": name, "secret": name, "worker": ALL, "slot": slot}
        return Receive(endpoint, Packet("abort", {**fields, "code": "mismatch"}))

    def _reject(self, reason: str, name: str = "-") -> list[Receive]:
        self.verdict = reason
        self.counts[name][reason] = self.counts[name].get(reason, 0) + 1
        return []


def _names(update: Packet) -> dict[str, Value]:
    """Returns the fields that name the pass. A reply repeats them."""
    names = ("job", "secret", "worker", "slot", "epoch", "fingerprint")
    return {name: update[name] for name in names}


def rejection_of(how: str) -> str:
    """Returns the reason for which a damaged packet (see datagram.py) is rejected."""
    what, _, value = how.partition(":")
    if what == "cut":
        return "truncated" if int(value) < 36 else "bad_length"
    return {"append": "bad_length", "flip": "corrupt", "set": "foreign"}[what]
