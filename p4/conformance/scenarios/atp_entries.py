"""Scenarios of a switch that combines updates: who gets an entry, who joins it, and when it becomes free."""

from __future__ import annotations

from conformance.combiner_script import CombinerScript
from conformance.vector import Vector


def claim(size: int) -> Vector:
    script = CombinerScript(
        "claim", size, "The first packet of a pass claims its entry. Nothing leaves the switch yet."
    )
    script.combined_job("A", workers=3, slots=3, servers=2)
    script.update(1, 0, "claim")
    script.say("another slot has another entry, and another server")
    script.whole_pass(0, 3, slot=1)
    script.say("a second transmission may not claim, so it is sent on")
    script.update(0, 0, "pass", "again", slot=2)
    return script.finish()


def join(size: int) -> Vector:
    script = CombinerScript(
        "join",
        size,
        "Each child is added once. One sum leaves when all are in: of the words, and the largest exponent.",
    )
    script.combined_job("A", workers=3)
    script.update(2, 0, "claim")
    script.update(0, 0, "join", exponents=(140,))
    script.say("a second transmission may join")
    script.update(1, 0, "combine", "again")
    script.result(0, "release")
    script.say("the next pass of the slot; sums wrap around")
    script.update(1, 1, "claim", words=[2**31 - 1] * size)
    script.update(2, 1, "join", words=[2] * size)
    script.update(0, 1, "combine", words=[-(2**31)] * size)
    return script.finish()


def absorb(size: int) -> Vector:
    script = CombinerScript(
        "absorb", size, "A packet that an entry has already is dropped, first transmission or second."
    )
    script.combined_job("A", workers=3)
    script.update(0, 0, "claim")
    script.update(0, 0, "absorb")
    script.update(0, 0, "absorb", "again")
    script.update(1, 0, "join")
    script.update(1, 0, "absorb", "again")
    script.update(0, 0, "absorb")
    script.update(2, 0, "combine")
    return script.finish()


def repeat(size: int) -> Vector:
    script = CombinerScript(
        "repeat",
        size,
        "The sum was lost on its way. Whoever sends again makes the switch send it again, until the result.",
    )
    script.combined_job("A", workers=3)
    script.whole_pass(0, 3)
    script.update(1, 0, "repeat", "again")
    script.update(0, 0, "repeat", "again")
    script.say("a copy of a first transmission does the same")
    script.update(2, 0, "repeat")
    script.result(0, "release")
    script.say("after the result the entry is free, and a second transmission does not claim it")
    script.update(1, 0, "pass", "again")
    return script.finish()


def collide(size: int) -> Vector:
    script = CombinerScript(
        "collide",
        size,
        """Two jobs want the only entry. The pass that came later is sent on as it came, by all its workers. It neither
        frees the entry nor changes its sum.""",
    )
    script.table(entries=1)
    script.combined_job("A", workers=3)
    script.combined_job("B", workers=2)
    script.update(0, 0, "claim")
    script.update(0, 0, "pass", job="B")
    script.update(1, 0, "join")
    script.update(1, 0, "pass", job="B")
    script.update(0, 0, "pass", "again", job="B")
    script.say("the result of B's pass goes by, and is not that of the entry's")
    script.result(0, "reply", job="B")
    script.update(2, 0, "combine")
    script.result(0, "release")
    script.say("now B's next pass may have it, and A's is sent on")
    script.update(1, 1, "claim", job="B")
    script.update(2, 1, "pass")
    script.update(0, 1, "combine", job="B")
    script.result(1, "release", job="B")
    return script.finish()


def release(size: int) -> Vector:
    script = CombinerScript(
        "release", size, "The result of a pass frees its entry and goes to all children, complete entry or not."
    )
    script.combined_job("A", workers=2, slots=2)
    script.update(0, 0, "claim")
    script.say("worker 1 has sent directly; the server has both")
    script.result(0, "release")
    script.result(0, "reply")
    script.whole_pass(1, 2)
    script.update(0, 0, "claim", slot=1)
    script.say("results of other slots and passes free nothing")
    script.result(1, "reply", slot=1)
    script.update(1, 0, "combine", slot=1)
    script.update(1, 1, "repeat", "again")
    script.result(1, "release")
    return script.finish()


def late_release(size: int) -> Vector:
    script = CombinerScript(
        "late_release", size, "A copy of an old result comes when the next pass has the entry. It must not free it."
    )
    script.combined_job("A", workers=2)
    script.whole_pass(0, 2)
    script.result(0, "release")
    script.update(0, 1, "claim")
    script.result(0, "reply")
    script.update(1, 1, "combine")
    script.result(0, "reply")
    script.update(1, 1, "repeat", "again")
    script.result(1, "release")
    return script.finish()


def expiry(size: int) -> Vector:
    script = CombinerScript(
        "expiry",
        size,
        """An entry whose pass is older than the lifetime may be taken by another pass. Nobody joins it any more, not
        even its own pass, and a result of that pass frees nothing.""",
    )
    script.table(entries=1)
    script.combined_job("A", workers=3)
    script.combined_job("B", workers=2)
    script.update(0, 0, "claim")
    script.wait(150)
    script.update(0, 0, "pass", job="B")
    script.update(1, 0, "join")
    script.wait(100)
    script.say("the entry is 250 ms old")
    script.update(2, 0, "pass", "again")
    script.say("B's pass 0 has collided, so it is not B's that claims, but B's next pass")
    script.update(1, 0, "pass", job="B")
    script.update(1, 1, "claim", job="B")
    script.update(0, 0, "pass", "again")
    script.result(0, "reply")
    script.update(0, 1, "combine", job="B")
    script.wait(250)
    script.say("a complete sum is not repeated from an old entry")
    script.update(0, 1, "pass", "again", job="B")
    script.result(1, "reply", job="B")
    script.whole_pass(2, 3)
    return script.finish()


def expired_own(size: int) -> Vector:
    script = CombinerScript(
        "expired_own",
        size,
        """The workers of a pass come so late that its entry is too old. The pass claims it anew, and what was in it is
        gone: it does not count as joined.""",
    )
    script.combined_job("A", workers=3)
    script.update(0, 0, "claim")
    script.update(1, 0, "join")
    script.wait(450)
    script.update(2, 0, "claim")
    script.update(0, 0, "join", "again")
    script.update(0, 0, "absorb", "again")
    script.update(1, 0, "combine", "again")
    script.result(0, "release")
    return script.finish()


def late_original(size: int) -> Vector:
    script = CombinerScript(
        "late_original",
        size,
        """Worker 1's second transmission completes the pass. Its first one comes after the result, and claims an entry
        that no result will free. So the next pass is sent on, until the lifetime is over.""",
    )
    script.combined_job("A", workers=2)
    script.update(0, 0, "claim")
    script.update(1, 0, "combine", "again")
    script.result(0, "release")
    script.update(1, 0, "claim")
    script.update(0, 1, "pass")
    script.update(1, 1, "pass")
    script.result(1, "reply")
    script.wait(250)
    script.whole_pass(2, 2)
    script.result(2, "release")
    return script.finish()


def direct(size: int) -> Vector:
    script = CombinerScript(
        "direct",
        size,
        """A third transmission goes to the server as it is, whatever the entry holds, and changes nothing. So does a
        later one, should it come here.""",
    )
    script.combined_job("A", workers=2)
    script.update(0, 0, "pass", "uncombined")
    script.update(0, 0, "claim")
    script.update(1, 0, "pass", "direct")
    script.update(0, 0, "pass", "direct")
    script.update(1, 0, "combine")
    script.update(1, 0, "pass", "uncombined")
    return script.finish()


def split_pass(size: int) -> Vector:
    script = CombinerScript(
        "split_pass",
        size,
        """Worker 0 finds the entry taken, so its packet waits at the server. Then the entry becomes free. The other
        workers' packets are sent on, too. Otherwise they would wait in the entry for worker 0's second
        transmission.""",
    )
    script.combined_job("A", workers=3)
    script.update(0, 0, "claim")
    script.update(0, 1, "pass")
    script.result(0, "release")
    script.update(1, 1, "pass")
    script.update(2, 1, "pass")
    script.update(1, 1, "pass", "again")
    script.result(1, "reply")
    script.whole_pass(2, 3)
    script.result(2, "release")
    return script.finish()


SCENARIOS = (
    *(claim, join, absorb, repeat, collide, release, late_release),
    *(expiry, expired_own, late_original, direct, split_pass),
)
