"""Scenarios of packets that must change nothing: of another or no job, of a wrong size, damaged or contradictory."""

from __future__ import annotations

from conformance.script import Script
from conformance.vector import Vector


def wrong_job(size: int) -> Vector:
    script = Script(
        "wrong_job",
        size,
        """Packets of a job that does not exist, with a wrong secret, and of workers that the job does not have.""",
    )
    script.job("A", workers=2, slots=1)
    script.job("B", workers=2, slots=1)
    script.update(0, 0, "first")
    script.say("no such job")
    stranger = script.packet(1, 0, job="unknown")
    script.send("A1", stranger, "unknown_job")
    script.say("a wrong secret, and that of another job: the answer repeats it and does not give away the right one")
    script.update(1, 0, "wrong_secret", secret="wrong")
    script.update(1, 0, "wrong_secret", secret="B")
    script.send("B1", script.packet(1, 0, secret="B"), "wrong_secret")
    script.say("workers that the job does not have")
    for worker in (2, 3, 31, 65535):
        script.send("A1", script.packet(worker, words=[5] * size, exponents=[9]), "bad_worker")
    script.say("nothing of this was counted")
    script.state()
    script.state("B")
    script.update(1, 0, "complete")
    script.state()
    return script.finish()


def wrong_slot(size: int) -> Vector:
    script = Script(
        "wrong_slot",
        size,
        """Packets that name slots beyond the job's own. In a pool that jobs share, these slots belong to another
        job.""",
    )
    script.job("A", workers=2, slots=2)
    script.job("B", workers=2, slots=2)
    script.update(0, 0, "first", job="B")
    for slot in (2, 3, 4, 255, 256, 65535):
        script.update(1, 0, "bad_slot", slot=slot)
    for slot in range(2):
        script.state("A", slot)
        script.state("B", slot)
    script.update(1, 0, "complete", job="B")
    return script.finish()


def wrong_length(size: int) -> Vector:
    script = Script(
        "wrong_length",
        size,
        """Packets that are cut, that are too long, or that are larger than the job's chunks.""",
    )
    script.job("A", workers=2, slots=1)
    script.update(0, 0, "first")
    script.say("cut inside the header, at its end, and inside the payload")
    for length in (1, 35):
        script.update(1, 0, "truncated", damage=f"cut:{length}")
    for length in (36, 40, 40 + 4 * size - 1, 40 + 4 * (size - 1)):
        script.update(1, 0, "bad_length", damage=f"cut:{length}")
    script.say("with bytes behind its end")
    script.update(1, 0, "bad_length", damage="append:1")
    script.update(1, 0, "bad_length", damage="append:4")
    script.say("one word, or one exponent, more than a chunk has")
    script.update(1, 0, "too_large", words=[5] * (size + 1))
    script.update(1, 0, "too_large", exponents=[101, 102])
    script.state()
    script.update(1, 0, "complete")
    script.state()
    return script.finish()


def contradictory_sizes(size: int) -> Vector:
    script = Script(
        "contradictory_sizes",
        size,
        """Updates with the fingerprint of the pass's first update, but with other sizes. No worker sends these, and
        nothing of them may be added.""",
        needs=["sizes"],
    )
    script.job("A", workers=2, slots=1)
    script.update(0, 0, "first")
    script.update(1, 0, "mismatch", words=[])
    script.update(1, 0, "mismatch", words=[5] * (size // 2))
    script.update(1, 0, "mismatch", exponents=[])
    script.state()
    script.update(1, 0, "complete")
    script.state()
    return script.finish()


def foreign(size: int) -> Vector:
    script = Script(
        "foreign",
        size,
        """Datagrams that are not updates: of another protocol or version, and kinds that only the
        aggregator sends.""",
    )
    script.job("A", workers=2, slots=1)
    script.update(0, 0, "first")
    script.say("another magic number, protocol version, kind")
    script.update(1, 0, "foreign", damage="set:0=0x00")
    script.update(1, 0, "foreign", damage="set:1=0x59")
    script.update(1, 0, "foreign", damage="set:2=2")
    script.update(1, 0, "foreign", damage="set:3=0")
    script.update(1, 0, "foreign", damage="set:3=7")
    script.say("kinds that only the aggregator sends")
    script.update(1, 0, "not_an_update", kind="result")
    script.state()
    script.update(1, 0, "complete")
    return script.finish()


def corrupt(size: int) -> Vector:
    script = Script(
        "corrupt",
        size,
        """A damaged bit anywhere in the packet. The CRC finds it.""",
        needs=["checksum"],
    )
    script.job("A", workers=2, slots=1)
    script.update(0, 0, "first")
    for byte in (4, 9, 17, 19, 23, 27, 31, 35, 36, 37, 40, 43 + 4 * (size - 1)):
        script.update(1, 0, "corrupt", damage=f"flip:{byte}.3")
    script.state()
    script.update(1, 0, "complete")
    script.state()
    return script.finish()


def mismatch(size: int) -> Vector:
    script = Script(
        "mismatch",
        size,
        """Two workers sum different things: the job ends for all, and workers that send later are told, too.""",
        needs=["mismatch"],
    )
    script.job("A", workers=3, slots=1)
    script.job("B", workers=2, slots=1)
    script.whole_pass(0, 3)
    script.update(2, 1, "first")
    script.say("a late packet of pass 0 that has another fingerprint is only stale")
    script.update(1, 0, "stale", fingerprint=0x77)
    script.update(0, 1, "mismatch", fingerprint=0x99)
    script.update(1, 1, "aborted")
    script.update(2, 1, "aborted")
    script.say("another job goes on")
    script.whole_pass(0, 2, job="B")
    script.state("B")
    return script.finish()


SCENARIOS = (
    wrong_job,
    wrong_slot,
    wrong_length,
    contradictory_sizes,
    foreign,
    corrupt,
    mismatch,
)
