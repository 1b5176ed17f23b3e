"""A switch that combines updates, as a reference interpreter of its rule.

It says what docs/atp.md says, in as few words as possible. The vectors of such switches are generated from it, and no
switch shares code with it.
"""

from __future__ import annotations

import dataclasses

from conformance.specification import ALL, rejection_of
from conformance.vector import Job, Packet, Receive, Value
from conformance.words import wrap

LIFETIME = 200  # milliseconds
DEFAULT_ENTRIES = 2048
_NAMES = ("job", "secret", "slot", "epoch", "fingerprint")  # of a pass
_GOLDEN = 0x9E3779B97F4A7C15

Pass = tuple[Value, ...]  # number of the job's registration, and what the pass's packets have in common


@dataclasses.dataclass
class Entry:
    owner: Pass | None = None
    claimed: int = 0  # when
    seen: set[str] = dataclasses.field(default_factory=set)  # the children whose packets are in it
    exponents: list[int] = dataclasses.field(default_factory=list)
    words: list[int] = dataclasses.field(default_factory=list)
    marked: bool = False
    collided: Pass | None = None  # the latest pass that wanted it while it was taken
    stamps: dict[str, tuple[Pass, int]] = dataclasses.field(
        default_factory=dict
    )  # what each child was added to, and when


class Combiner:
    """A switch: it takes packets and returns packets. `verdict` says what became of the last one.

    Args:
      stamps: whether it finds out from stamps whether a child has been added, as a chip does (docs/tofino.md). These
        outlast an entry by a lifetime. So a pass that claims an entry anew may take new packets for repeated ones.
    """

    def __init__(self, stamps: bool = False) -> None:
        self.keeps_stamps = stamps
        self.jobs: dict[str, Job] = {}
        self.numbers: dict[str, int] = {}  # of the jobs' registrations, from 1
        self.counts: dict[str, dict[str, int]] = {"-": {}}
        self.entries = [Entry() for _ in range(DEFAULT_ENTRIES)]
        self.now = 10 * LIFETIME
        self.verdict = ""

    def add_job(self, job: Job) -> None:
        self.jobs[job.name] = job
        self.numbers[job.name] = len(self.numbers) + 1
        self.counts[job.name] = {}

    def on_packet(self, sender: str, packet: Packet) -> list[Receive]:
        """Takes a packet from the endpoint `sender`, and returns what the switch sends."""
        if "damage" in packet.fields:
            return self._reject(rejection_of(str(packet["damage"])))
        name = str(packet["job"])
        reply = packet.kind not in ("update", "combined")
        if name not in self.jobs:
            return self._refuse(sender, packet, "unknown_job", "-", reply)
        if packet["secret"] != name:
            return self._refuse(sender, packet, "wrong_secret", name, reply)
        job = self.jobs[name]
        if int(packet["slot"]) >= job.slots:
            return self._reject("bad_slot", name)
        return self._reply(job, sender, packet) if reply else self._update(job, packet)

    # ---- up

    def _update(self, job: Job, packet: Packet) -> list[Receive]:
        is_group = isinstance(packet["worker"], str)
        if is_group != (packet.kind == "combined"):
            return self._reject("bad_worker", job.name)
        child = f"{job.name}{packet['worker']}"
        is_child = child in children_of(job)
        if is_group and not is_child:
            return self._reject("foreign", job.name)  # servers take sums from switches only
        # The sum of a group's narrow words does not fit into such words.
        combines = packet["transmission"] in ("first", "again") and "format" not in packet.fields
        if not is_child or not combines or len(children_of(job)) == 1:
            return self._pass_on(job, packet, "passed_on")
        entry, owner = self._entry(job, packet), self._pass(job, packet)
        marked = "mark" in packet.fields
        held = entry.owner is not None and self.now - entry.claimed <= LIFETIME
        if held and entry.owner == owner:
            entry.marked |= marked
            if len(entry.seen) == len(children_of(job)):
                self._count(job.name, "absorbed")
                self.verdict = "repeat"
                return [self._sum(job, entry, packet, "again")]
            if child in entry.seen or (self.keeps_stamps and self._is_stamped(entry, child)):
                return self._absorb(job)
            return self._join(job, entry, child, packet)
        if packet["transmission"] == "again":
            return self._pass_on(job, packet, "collisions")
        if held:
            entry.collided = owner
            return self._pass_on(job, packet, "collisions")
        if entry.collided == owner:  # the rest of a pass goes the way of its first packet
            return self._pass_on(job, packet, "collisions")
        if entry.owner is not None:
            self._count(job.name, "expired")
        entry.owner, entry.claimed, entry.marked, entry.seen = owner, self.now, marked, {child}
        entry.words, entry.exponents = list(packet["words"]), list(packet["exponents"])
        entry.stamps[child] = owner, self.now
        self._count(job.name, "claims")
        self.verdict = "claim"
        return []

    def _join(self, job: Job, entry: Entry, child: str, packet: Packet) -> list[Receive]:
        entry.seen.add(child)
        assert entry.owner is not None
        entry.stamps[child] = entry.owner, self.now
        entry.words = [wrap(a + b) for a, b in zip(entry.words, packet["words"], strict=True)]
        entry.exponents = [max(pair) for pair in zip(entry.exponents, packet["exponents"], strict=True)]
        self._count(job.name, "joins")
        self.verdict = "join"
        if len(entry.seen) < len(children_of(job)):
            return []
        self._count(job.name, "combined")
        self.verdict = "combine"
        return [self._sum(job, entry, packet, "first")]

    def _is_stamped(self, entry: Entry, child: str) -> bool:
        owner, added = entry.stamps.get(child, (None, 0))
        return owner == entry.owner and self.now - added <= LIFETIME

    def _absorb(self, job: Job) -> list[Receive]:
        self._count(job.name, "absorbed")
        self.verdict = "absorb"
        return []

    def _sum(self, job: Job, entry: Entry, packet: Packet, transmission: str) -> Receive:
        fields: dict[str, Value] = {
            **{name: packet[name] for name in _NAMES[:2]},
            "worker": "g0",
            **{name: packet[name] for name in _NAMES[2:]},
            "transmission": transmission,
            **({"mark": 1} if entry.marked else {}),
            "exponents": tuple(entry.exponents),
            "words": tuple(entry.words),
        }
        return Receive(self._upstream(job, packet), Packet("combined", fields))

    def _pass_on(self, job: Job, packet: Packet, counter: str) -> list[Receive]:
        self._count(job.name, counter)
        self.verdict = "pass"
        return [Receive(self._upstream(job, packet), packet)]

    # ---- down

    def _reply(self, job: Job, sender: str, packet: Packet) -> list[Receive]:
        if sender != self._upstream(job, packet):
            return self._reject("foreign", job.name)
        self._count(job.name, "replies")
        self.verdict = "reply"
        if packet["worker"] != ALL:
            return [Receive(child, packet) for child, below in children_of(job).items() if packet["worker"] in below]
        if packet.kind == "result":
            entry = self._entry(job, packet)
            if entry.owner == self._pass(job, packet) and self.now - entry.claimed <= LIFETIME:
                entry.owner = None
                self._count(job.name, "released")
                self.verdict = "release"
        return [Receive(child, packet) for child in children_of(job)]

    # ----

    def _entry(self, job: Job, packet: Packet) -> Entry:
        """Returns the entry of a pass. Jobs begin at fractions of the golden ratio, and a job's slots follow each
        other."""
        fraction = self.numbers[job.name] * _GOLDEN % 2**64 >> 32
        first = fraction * len(self.entries) >> 32
        return self.entries[(first + int(packet["slot"])) % len(self.entries)]

    def _pass(self, job: Job, packet: Packet) -> Pass:
        sizes = len(packet["words"]), len(packet["exponents"])
        return (self.numbers[job.name], packet["slot"], packet["epoch"], packet["fingerprint"], *sizes)

    @staticmethod
    def _upstream(job: Job, packet: Packet) -> str:
        return f"{job.name}s{int(packet['slot']) % job.servers}"

    def _refuse(self, sender: str, packet: Packet, reason: str, name: str, silent: bool) -> list[Receive]:
        self._reject(reason, name)
        if silent:
            return []
        fields = {name: packet[name] for name in ("job", "secret", "worker", *_NAMES[2:])}
        return [Receive(sender, Packet("refused", {**fields, "code": "unknown_job"}))]

    def _reject(self, reason: str, name: str = "-") -> list[Receive]:
        self.verdict = reason
        self._count(name, reason)
        return []

    def _count(self, name: str, counter: str) -> None:
        self.counts[name][counter] = self.counts[name].get(counter, 0) + 1


def children_of(job: Job) -> dict[str, tuple[int, ...]]:
    """Returns who sends to the switch, by endpoint: the workers that are there, by number. A worker that is in a group
    below is no child itself."""
    grouped = {worker for below in job.groups.values() for worker in below}
    alone = {f"{job.name}{worker}": (worker,) for worker in range(job.workers) if worker not in grouped}
    return alone | {f"{job.name}g{number}": below for number, below in job.groups.items()}
