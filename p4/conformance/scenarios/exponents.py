"""Scenarios of exponents: for each block the aggregator takes the largest, one pass ahead of the data."""

from __future__ import annotations

from conformance.script import Script
from conformance.vector import Vector
from conformance.words import run


def look_ahead(size: int) -> Vector:
    script = Script(
        "look_ahead",
        size,
        """Each chunk carries the exponents of the slot's next chunk. The first exponents come in a packet without data,
        and the last chunk has none. The result is the largest exponent, whichever worker has it and whenever it
        comes.""",
    )
    script.job("A", workers=3, slots=1)
    script.say("exponents only")
    script.update(0, 0, "first", words=[], exponents=[120])
    script.update(1, 0, "added", words=[], exponents=[130])
    script.update(1, 0, "duplicate", words=[], exponents=[130])
    script.state()
    script.update(2, 0, "complete", words=[], exponents=[110])
    script.say("data of this chunk, exponents of the next; the largest comes first, then last")
    for epoch, exponents in ((1, (140, 20, 139)), (2, (0, 3, 255)), (3, (0, 0, 0))):
        for worker, exponent in enumerate(exponents):
            verdict = ("first", "added", "complete")[worker]
            script.update(worker, epoch, verdict, exponents=[exponent])
        script.state()
    script.say("the last chunk: no exponents")
    for worker in range(3):
        script.update(worker, 4, ("first", "added", "complete")[worker], exponents=[])
    script.state()
    return script.finish()


def stale_exponents(size: int) -> Vector:
    script = Script(
        "stale_exponents",
        size,
        """Duplicates and late packets change no exponent, and a new pass does not keep the exponents of the old
        one.""",
    )
    script.job("A", workers=2, slots=1)
    script.update(0, 0, "first", exponents=[200])
    script.update(1, 0, "complete", exponents=[100])
    script.update(0, 1, "first", exponents=[90])
    script.update(1, 1, "complete", exponents=[80])
    script.say("pass 2 begins with a smaller exponent than pass 0 left there")
    script.update(0, 2, "first", exponents=[70])
    script.update(1, 0, "stale", exponents=[254])
    script.update(0, 2, "duplicate", exponents=[70])
    script.state()
    script.update(1, 2, "complete", exponents=[60])
    script.state()
    return script.finish()


def several_blocks(size: int) -> Vector:
    script = Script(
        "several_blocks",
        size,
        """Chunks of four blocks have four exponents, and each is a maximum of its own. A short last chunk has fewer
        words, and may have any number of exponents.""",
        needs=["blocks"],
    )
    script.job("A", workers=2, slots=1, blocks=4)
    script.update(0, 0, "first", words=[], exponents=[10, 20, 30, 40])
    script.update(1, 0, "complete", words=[], exponents=[40, 30, 20, 10])
    words = run(7, 1, 4 * size)
    script.update(0, 1, "first", words=words, exponents=[1, 0, 255])
    script.update(1, 1, "complete", words=words, exponents=[2, 254, 3])
    script.state()
    short = run(-5, 2, size + 3)
    script.update(1, 2, "first", words=short, exponents=[])
    script.update(0, 2, "complete", words=short, exponents=[])
    script.state()
    script.say("one exponent more than blocks")
    script.update(0, 3, "too_large", exponents=[1, 2, 3, 4, 5])
    return script.finish()


def short_chunk(size: int) -> Vector:
    script = Script(
        "short_chunk",
        size,
        """The last chunk of a collective has only the words that are left. The next collective has whole chunks
        again.""",
        needs=["short"],
    )
    script.job("A", workers=2, slots=1)
    script.whole_pass(0, 2)
    for count, epoch in ((1, 1), (size // 2 + 1, 2), (size, 3)):
        script.update(0, epoch, "first", words=run(5, 5, count), exponents=[9])
        script.update(1, epoch, "complete", words=run(6, 6, count), exponents=[8])
    script.state()
    return script.finish()


SCENARIOS = (look_ahead, stale_exponents, several_blocks, short_chunk)
