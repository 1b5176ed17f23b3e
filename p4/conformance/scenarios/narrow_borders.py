"""Scenarios of passes with narrow words that must change nothing: of a wrong size or format, or sent to a job
that has none."""

from __future__ import annotations

from conformance.scenarios.narrow import narrow_script
from conformance.script import Script
from conformance.vector import Value, Vector


def narrow_format_differs(size: int) -> Vector:
    script = narrow_script(
        "narrow_format_differs",
        size,
        """Updates with the fingerprint and the number of 32-bit words of the pass's first update, but with another
        format. No worker sends these, and nothing of them may be added.""",
        workers=2,
    )
    forms: tuple[dict[str, Value], ...] = (
        {"form": "int8", "seed": 0, "words": [1] * 8},
        {"form": "int16", "seed": 0, "words": [1] * 4},
        {"form": "flags", "words": [0, 0, 0x01010101, 0x01010101]},
        {"words": [0, 0, 0x01010101, 0x01010101]},
    )
    for epoch, form in enumerate(forms):
        script.update(0, epoch, "first", exponents=[2], **form)
        for other in forms:
            if other is not form:
                script.update(1, epoch, "mismatch", exponents=[2], **other)
        script.state()
        script.update(1, epoch, "complete", exponents=[2], **form)
        script.update(1, epoch, "mismatch", exponents=[2], **forms[epoch - 1])
        script.state()
    return script.finish()


def narrow_too_large(size: int) -> Vector:
    script = narrow_script(
        "narrow_too_large",
        size,
        """Passes that are larger than a chunk, or that lack their seed.""",
        workers=2,
    )
    script.update(0, 0, "first", form="int8", seed=0, words=[1] * 4, exponents=[1, 2, 3, 4])
    for form, each in (("int8", 4), ("int16", 2)):
        script.update(1, 0, "too_large", form=form, seed=0, words=[5] * (each * size + each), exponents=[1, 2, 3, 4])
    script.update(1, 0, "too_large", form="flags", words=[5] * (size + 3))
    script.say("five exponents; two with words of 32 bits, which may have more only if there are no words")
    script.update(1, 0, "too_large", form="int8", seed=0, words=[5] * 4, exponents=[1, 2, 3, 4, 5])
    script.update(1, 0, "too_large", form="flags", words=[5], exponents=[1, 2, 3, 4, 5])
    script.update(1, 0, "too_large", words=[5], exponents=[1, 2])
    script.update(1, 0, "too_large", words=[], exponents=[1, 2, 3, 4, 5])
    script.say("no seed, and half a seed")
    for form in ("int8", "int16"):
        script.update(1, 0, "too_large", form=form, words=[], exponents=[1, 2, 3, 4])
        script.update(1, 0, "too_large", form=form, words=[5], exponents=[1, 2, 3, 4])
    script.state()
    script.update(1, 0, "complete", form="int8", seed=0, words=[1] * 4, exponents=[4, 3, 2, 1])
    script.state()
    return script.finish()


def narrow_refused(size: int) -> Vector:
    script = Script(
        "narrow_refused",
        size,
        """A job without narrow words is sent some, in passes of a whole chunk. They change nothing.""",
    )
    script.job("A", workers=2, slots=1)
    script.update(0, 0, "first")
    for form in ("int8", "int16", "flags"):
        script.update(1, 0, "too_large", form=form, words=[5] * size)
    script.state()
    script.update(1, 0, "complete")
    script.state()
    return script.finish()


SCENARIOS = (narrow_format_differs, narrow_too_large, narrow_refused)
