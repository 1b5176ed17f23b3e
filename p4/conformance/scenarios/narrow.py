"""Scenarios of words of 8 and 16 bits, and of the flags that go with them (docs/narrow_words.md)."""

from __future__ import annotations

from conformance.script import Script
from conformance.vector import Value, Vector
from conformance.words import run

SEED = 0x0123456789ABCDEF
LARGEST = {"int8": 127, "int16": 32767}


def narrow_script(name: str, size: int, about: str, workers: int, blocks: int = 1, **job: int) -> Script:
    script = Script(name, size, about, needs=["narrow"])
    script.job("A", workers=workers, slots=1, blocks=blocks, narrow=True, **job)
    return script


def narrow_pass(script: Script, epoch: int, form: str, words: list[list[int]], seed: int = 0, **changes: Value) -> None:
    """Sends the words of all workers, in their order."""
    for worker, own in enumerate(words):
        verdict = "complete" if worker == len(words) - 1 else "added" if worker else "first"
        script.update(worker, epoch, verdict, form=form, seed=seed, words=own, **changes)


def mixed(worker: int, count: int, most: int) -> list[int]:
    """Returns words of both signs that have no pattern."""
    return [(worker * 7919 + i * i * 104729 + i * 31) % (2 * most + 1) - most for i in range(count)]


def sawtooth(count: int, step: int) -> list[int]:
    """Returns runs of 128 words."""
    return [step * (i % 128 - 64) for i in range(count)]


def narrow_nearest(size: int) -> Vector:
    script = narrow_script(
        "narrow_nearest",
        size,
        """Sums of 8-bit and 16-bit words of two workers are halved and rounded to nearest: whole chunks, which have
        four and two blocks here.""",
        workers=2,
    )
    script.update(0, 0, "first", words=[], exponents=[10, 20, 30, 40])
    script.update(1, 0, "complete", words=[], exponents=[40, 30, 20, 10])
    narrow_pass(script, 1, "int8", [sawtooth(4 * size, 1), [3] * 4 * size], exponents=[1, 2])
    script.state()
    narrow_pass(script, 2, "int8", [sawtooth(4 * size, -1), [-1] * 4 * size], exponents=[])
    narrow_pass(script, 3, "int16", [sawtooth(2 * size, 500), [1] * 2 * size], exponents=[5])
    script.state()
    script.say("then words of 32 bits again, which are not rounded")
    script.whole_pass(4, 2)
    script.state()
    return script.finish()


def narrow_ties(size: int) -> Vector:
    script = narrow_script(
        "narrow_ties",
        size,
        """Ties go to the even neighbour, above and below zero. Four workers: sums are divided by 4, and a rest of 2 is
        a tie.""",
        workers=4,
    )
    sums = run(-16, 1, 32)
    for epoch, form in enumerate(("int8", "int16")):
        narrow_pass(script, epoch, form, [[0] * 32, sums, [0] * 32, [0] * 32], exponents=[9])
        script.state()
    script.say("the same sums, from words that are far from them")
    narrow_pass(script, 2, "int8", [[100] * 32, [word - 50 for word in sums], [-100] * 32, [50] * 32], exponents=[9])
    return script.finish()


def narrow_negative(size: int) -> Vector:
    script = narrow_script(
        "narrow_negative",
        size,
        """Negative sums of three workers: a shift to the right rounds down, not to zero, so -1 / 4 must become 0 and
        -3 / 4 must become -1.""",
        workers=3,
    )
    narrow_pass(script, 0, "int8", [[-1] * 8, [0] * 8, run(-5, 1, 8)], exponents=[])
    script.state()
    narrow_pass(script, 1, "int16", [[-1] * 8, [-300] * 8, run(-5, 100, 8)], exponents=[])
    script.state()
    return script.finish()


def narrow_full_range(size: int) -> Vector:
    script = narrow_script(
        "narrow_full_range",
        size,
        """The largest words of both signs from five workers. The sum of 8-bit words needs more than 8 bits, and the
        result fits again, because the shift is for eight workers.""",
        workers=5,
    )
    for epoch, form in enumerate(("int8", "int16")):
        most = LARGEST[form]
        narrow_pass(script, 2 * epoch, form, [[most, -most] * 4] * 5, exponents=[1])
        narrow_pass(
            script, 2 * epoch + 1, form, [[most, -most, 0, most] * 2] * 4 + [[-most] * 8], seed=SEED, exponents=[]
        )
        script.state()
    return script.finish()


def narrow_stochastic(size: int) -> Vector:
    script = narrow_script(
        "narrow_stochastic",
        size,
        """Sums are rounded up or down by the random numbers of the pass's seed. Three workers: two bits of each random
        number decide. Another seed gives other results for the same words.""",
        workers=3,
    )
    for epoch, (form, seed) in enumerate(
        (("int8", SEED), ("int8", SEED + 1), ("int16", SEED), ("int16", 1), ("int8", 2**64 - 1))
    ):
        words = [mixed(worker, 40, LARGEST[form]) for worker in range(3)]
        narrow_pass(script, epoch, form, words, seed=seed, exponents=[7])
        script.state()
    script.say("a sum of 1 becomes 0 or 1, one of -1 becomes 0 or -1, and multiples of 4 stay")
    narrow_pass(script, 5, "int8", [[1, -1, 4, -8] * 10, [0] * 40, [0] * 40], seed=SEED, exponents=[7])
    return script.finish()


def narrow_short(size: int) -> Vector:
    script = narrow_script(
        "narrow_short",
        size,
        """The last block of a collective has only the words that are left, filled up to 32 bits; and a pass may be a
        seed alone.""",
        workers=2,
    )
    for epoch, (form, count, seed) in enumerate(
        (("int8", 4, 0), ("int16", 2, SEED), ("int8", size + 12, 0), ("int16", size // 2 + 2, SEED))
    ):
        narrow_pass(script, epoch, form, [sawtooth(count, 1), [-1] * count], seed=seed, exponents=[3])
    script.state()
    script.say("no words at all")
    narrow_pass(script, 4, "int8", [[], []], seed=SEED, exponents=[4])
    narrow_pass(script, 5, "int16", [[], []], exponents=[])
    script.state()
    return script.finish()


def narrow_flags(size: int) -> Vector:
    script = narrow_script(
        "narrow_flags",
        size,
        """Flags are ored, not added, and not divided: what two workers both have stays as it is.""",
        workers=3,
    )
    script.update(0, 0, "first", form="flags", words=[1, 2, 0x5555, -1], exponents=[1])
    script.update(1, 0, "added", form="flags", words=[1, 3, 0x0F0F, 1], exponents=[2])
    script.update(1, 0, "duplicate", form="flags", words=[1, 3, 0x0F0F, 1], exponents=[2])
    script.state()
    script.update(2, 0, "complete", form="flags", words=[2, 1, -(2**31), 0], exponents=[0])
    script.state()
    script.update(0, 0, "resend", form="flags", words=[1, 2, 0x5555, -1], exponents=[1])
    script.say("no flags, and the most that a pass may have")
    for worker, verdict in enumerate(("first", "added", "complete")):
        script.update(worker, 1, verdict, form="flags", words=[], exponents=[1])
    for worker, verdict in enumerate(("first", "added", "complete")):
        script.update(worker, 2, verdict, form="flags", words=[1 << worker] * (size + 2), exponents=[1])
    script.state()
    return script.finish()


def narrow_repeated(size: int) -> Vector:
    script = narrow_script(
        "narrow_repeated",
        size,
        """Each update comes several times. It counts once, and a result that is sent again is not divided again.""",
        workers=3,
    )
    for epoch, (form, seed) in enumerate((("int8", 0), ("int16", SEED), ("int8", SEED))):
        words = [mixed(worker, 12, LARGEST[form]) for worker in range(3)]
        own: list[dict[str, Value]] = [{"form": form, "seed": seed, "words": w, "exponents": [1]} for w in words]
        script.update(2, epoch, "first", **own[2])
        script.update(2, epoch, "duplicate", **own[2])
        script.update(0, epoch, "added", **own[0])
        script.update(2, epoch, "duplicate", **own[2])
        script.state()
        script.update(1, epoch, "complete", **own[1])
        for worker in (1, 2, 0, 1):
            script.update(worker, epoch, "resend", **own[worker])
        script.state()
    return script.finish()


def narrow_epochs(size: int) -> Vector:
    script = Script(
        "narrow_epochs",
        size,
        """Formats change from pass to pass, across the wrap of the epochs. Old copies, of another format or the same,
        change nothing, and a pass keeps nothing of the one whose version it takes.""",
        needs=["narrow", "first_epoch"],
    )
    first = 2**32 - 2
    script.job("A", workers=2, slots=1, first_epoch=first, narrow=True)
    passes: tuple[dict[str, Value], ...] = (
        {"form": "int8", "seed": 0, "words": [100, -100, 3, 1]},
        {"form": "int16", "seed": SEED, "words": [3000, -3000, 7, 1]},
        {"words": [70000, -70000, 7, 1]},
        {"form": "flags", "words": [1, 2, 3, 4]},
        {"form": "int8", "seed": SEED, "words": [1] * 16},
        {"form": "int8", "seed": 0, "words": [-3, 5, 0, 1]},
        {"form": "int16", "seed": 0, "words": [9] * 4},
    )
    for number, form in enumerate(passes):
        epoch = first + number
        script.update(0, epoch, "first", exponents=[1], **form)
        if number >= 2:
            script.update(1, epoch - 2, "stale", exponents=[9], **passes[number - 2])
        if number >= 1:
            script.update(1, epoch - 1, "resend", exponents=[1], **passes[number - 1])
        script.update(1, epoch + 1, "ahead", exponents=[1], **form)
        script.state()
        script.update(1, epoch, "complete", exponents=[2], **form)
    script.state()
    return script.finish()


def narrow_alone(size: int) -> Vector:
    script = narrow_script(
        "narrow_alone",
        size,
        """One worker: its words come back as they are, whatever the seed, even the one word that has no opposite.""",
        workers=1,
    )
    for epoch, (form, seed) in enumerate((("int8", 0), ("int16", SEED))):
        most = LARGEST[form]
        words = [most, -most, -most - 1, 1, -1, 0, 2, -2]
        script.update(0, epoch, "complete", form=form, seed=seed, words=words, exponents=[1, 2, 3])
    script.state()
    return script.finish()


SCENARIOS = (
    narrow_nearest,
    narrow_ties,
    narrow_negative,
    narrow_full_range,
    narrow_stochastic,
    narrow_short,
    narrow_flags,
    narrow_repeated,
    narrow_epochs,
    narrow_alone,
)
