"""Scenarios of a switch that combines updates: groups, marks, and packets that must change nothing."""

from __future__ import annotations

from conformance.combiner_script import CombinerScript
from conformance.vector import Packet, Vector


def group(size: int) -> Vector:
    script = CombinerScript(
        "group",
        size,
        """Workers 0 and 1 are below another switch, which sends their sum as that of group 1. It counts as one child.
        Results go to that switch, and to worker 2.""",
    )
    script.combined_job("A", workers=3, below="1:0+1")
    script.update("g1", 0, "claim")
    script.update("g1", 0, "absorb", "again")
    script.update(2, 0, "combine")
    script.update("g1", 0, "repeat", "again")
    script.result(0, "release")
    script.say("the server speaks to worker 1: by way of its switch")
    script.send("As0", _pending(script, 1), "reply")
    script.send("As0", _pending(script, 2), "reply")
    return script.finish()


def overlap(size: int) -> Vector:
    script = CombinerScript(
        "overlap",
        size,
        """Worker 0's packet found no entry at the switch below, and comes alone. It is sent on and not added, because
        the sum of its group would have it twice. The server decides about sets that overlap.""",
    )
    script.combined_job("A", workers=3, below="1:0+1")
    script.update(2, 0, "claim")
    _alone(script, 0, 0, "first")
    _alone(script, 0, 0, "again")
    script.update("g1", 0, "combine")
    _alone(script, 0, 0, "again")
    script.result(0, "release")
    return script.finish()


def superset(size: int) -> Vector:
    script = CombinerScript(
        "superset",
        size,
        """All workers of a group come alone, because their pass collided below, and then the group's sum comes all the
        same. The switch sends the sum of all on. At the server it replaces what it contains.""",
    )
    script.combined_job("A", workers=3, below="1:0+1")
    _alone(script, 0, 0, "first")
    _alone(script, 1, 0, "first")
    script.update(2, 0, "claim")
    script.update("g1", 0, "combine", "again")
    script.result(0, "release")
    return script.finish()


def foreign_result(size: int) -> Vector:
    script = CombinerScript(
        "foreign_result",
        size,
        """A result counts only from its slot's server. From a worker, or from the server of another slot, it frees
        nothing and is not sent on.""",
    )
    script.combined_job("A", workers=2, slots=2, servers=2)
    script.update(0, 0, "claim")
    script.result(0, "foreign", sender="A1")
    script.result(0, "foreign", sender="As1")
    script.update(1, 0, "combine")
    script.result(0, "release")
    return script.finish()


def foreign_sum(size: int) -> Vector:
    script = CombinerScript(
        "foreign_sum",
        size,
        """A server takes sums from its switches only. So a switch does not send on a sum whose group is not its
        child, nor an update that says to be a group's.""",
    )
    script.combined_job("A", workers=3, below="1:0+1")
    script.update(2, 0, "claim")
    for transmission in ("first", "again", "uncombined"):
        packet = script.of("g1", 0, transmission)
        for number in ("g0", "g2"):
            script.send("Ag1", Packet(packet.kind, {**packet.fields, "worker": number}), "foreign")
    script.send("Ag1", Packet("update", script.of("g1", 0).fields), "bad_worker")
    script.send("A2", Packet("combined", script.of(2, 0).fields), "bad_worker")
    script.update("g1", 0, "combine")
    return script.finish()


def mark_not_inherited(size: int) -> Vector:
    script = CombinerScript(
        "mark_not_inherited",
        size,
        """A packet with a mark went through a queue. The sum of its pass has the mark, also if a packet brings it
        that was not added. The next owner of the entry begins without, after a release and after the lifetime.""",
    )
    script.combined_job("A", workers=3)
    script.update(0, 0, "claim")
    script.update(1, 0, "join", mark=True)
    script.update(2, 0, "combine")
    script.update(0, 0, "repeat", "again")
    script.result(0, "release", mark=True)
    script.whole_pass(1, 3)
    script.update(1, 1, "repeat", "again", mark=True)
    script.update(0, 1, "repeat", "again")
    script.result(1, "release")
    script.say("a repetition with a mark, before the pass is complete")
    script.update(0, 2, "claim")
    script.update(0, 2, "absorb", "again", mark=True)
    script.wait(250)
    script.say("the entry was too old, and has begun anew")
    script.whole_pass(3, 3)
    script.say("a pass that is sent on keeps its mark, and leaves none")
    script.update(0, 4, "pass", mark=True)
    script.update(1, 3, "repeat", "again")
    script.result(3, "release")
    script.update(0, 5, "claim", mark=True)
    script.update(2, 5, "join")
    script.update(1, 5, "combine")
    return script.finish()


def fingerprints(size: int) -> Vector:
    script = CombinerScript(
        "fingerprints",
        size,
        """Worker 1 sums something else in the same pass. Its packet is no part of the entry's pass and is sent on,
        and so the server sees that they differ.""",
    )
    script.combined_job("A", workers=2)
    script.update(0, 0, "claim")
    script.update(1, 0, "pass", fingerprint=0x5555)
    script.update(1, 0, "pass", "again", fingerprint=0x5555)
    script.update(0, 0, "absorb", "again")
    return script.finish()


def no_words(size: int) -> Vector:
    script = CombinerScript("no_words", size, "Passes with exponents and no words, and with words and no exponents.")
    script.combined_job("A", workers=2)
    script.update(0, 0, "claim", words=(), exponents=(120,))
    script.update(1, 0, "combine", words=(), exponents=(119,))
    script.update(0, 0, "repeat", "again", words=(), exponents=(120,))
    script.result(0, "reply", words=(), exponents=(120,), fingerprint=0x9999)
    script.result(0, "release", words=(), exponents=(120,))
    script.whole_pass(1, 2, exponents=())
    script.result(1, "release", exponents=())
    script.whole_pass(2, 2)
    return script.finish()


def epochs(size: int) -> Vector:
    script = CombinerScript("epochs", size, "Epochs have 32 bits and wrap. Far ones of the same slot are other passes.")
    script.combined_job("A", workers=2)
    for epoch in (2**32 - 1, 2**32, 2**20, 2**31, 2**16):
        script.update(0, epoch, "claim")
        script.update(1, epoch ^ 2**20, "pass")
        script.update(1, epoch ^ 2**31, "pass")
        script.result(epoch ^ 2**24, "reply")
        script.update(1, epoch, "combine")
        script.result(epoch, "release")
    return script.finish()


def strangers(size: int) -> Vector:
    script = CombinerScript(
        "strangers", size, "Packets without the job's id or secret, and such that name what it has not, change nothing."
    )
    script.combined_job("A", workers=2)
    script.update(0, 0, "claim")
    for changes, verdict in (
        ({"job": "unknown", "secret": "unknown"}, "unknown_job"),
        ({"secret": "wrong"}, "wrong_secret"),
        ({"slot": 1}, "bad_slot"),
        ({"damage": "cut:35"}, "truncated"),
    ):
        packet = script.of(1, 0)
        script.send("A1", Packet(packet.kind, {**packet.fields, **changes}), verdict)
    script.update(1, 0, "combine")
    return script.finish()


def narrow(size: int) -> Vector:
    script = CombinerScript(
        "narrow",
        size,
        """Words of 8 bits are sent on as they come, because a group's sum would not fit into them.""",
    )
    script.combined_job("A", workers=2)
    script.update(0, 0, "claim")
    for worker in range(2):
        packet = script.of(worker, 1, words=[7] * (size // 2))
        fields = {name: value for name, value in packet.fields.items() if name not in ("exponents", "words")}
        form = {"format": "int8", "exponents": (100, 101), "seed": 0, "words": packet["words"]}
        script.send(f"A{worker}", Packet("update", fields | form), "pass")
    script.update(1, 0, "combine")
    return script.finish()


def sizes(size: int) -> Vector:
    script = CombinerScript(
        "sizes",
        size,
        "Passes of any size are combined. A packet whose lengths contradict each other is dropped.",
        needs=["short"],
    )
    script.combined_job("A", workers=2)
    script.whole_pass(0, 2, words=range(3))
    script.result(0, "release", words=tuple(range(3)))
    script.update(0, 1, "claim")
    packet = script.of(1, 1)
    script.send("A1", Packet(packet.kind, {**packet.fields, "damage": "append:4"}), "bad_length")
    script.update(1, 1, "pass", words=[5])
    script.update(1, 1, "combine")
    return script.finish()


def _alone(script: CombinerScript, worker: int, epoch: int, transmission: str) -> None:
    """Sends the packet of a worker below the switch with group 1, which this switch has sent on."""
    script.send("Ag1", script.of(worker, epoch, transmission), "pass")


def _pending(script: CombinerScript, worker: int) -> Packet:
    fields = script.of(worker, 0).fields
    names = ("job", "secret", "worker", "slot", "epoch", "fingerprint")
    return Packet("pending", {name: fields[name] for name in names} | {"seen": (2,)})


SCENARIOS = (
    *(group, overlap, superset, foreign_result, foreign_sum),
    *(mark_not_inherited, fingerprints, no_words, epochs, strangers, narrow, sizes),
)
