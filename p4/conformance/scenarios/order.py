"""Scenarios of late, early and reordered packets, against which the epoch protects."""

from __future__ import annotations

from conformance.script import Script
from conformance.vector import Vector
from conformance.words import run


def stale_epochs(size: int) -> Vector:
    script = Script(
        "stale_epochs",
        size,
        """Packets that the network has held back. With the paper's version bit in place of the epoch, the first stale
        packet below would find its bit cleared, and would be added to pass 2: a wrong sum, without any loss.""",
    )
    script.job("A", workers=3, slots=1)
    script.whole_pass(0, 3)
    script.whole_pass(1, 3)
    script.say("pass 2 has begun; an old copy of worker 0's update for pass 0 arrives")
    script.update(1, 2, "first")
    script.update(0, 0, "stale")
    script.state()
    script.update(2, 2, "added")
    script.update(0, 0, "stale")
    script.say("a copy of pass 1 is no danger: its version still holds that pass")
    script.update(0, 1, "resend")
    script.update(0, 2, "complete")
    script.state()
    script.whole_pass(3, 3)
    script.say("several passes later, copies of each earlier pass")
    for epoch in range(2):
        for worker in range(3):
            script.update(worker, epoch, "stale")
    script.state()
    return script.finish()


def old_copies_complete_a_pass(size: int) -> Vector:
    script = Script(
        "old_copies_complete_a_pass",
        size,
        """All workers but one have contributed to pass 2. Of the missing worker only an old copy comes. The pass must
        stay incomplete.""",
    )
    script.job("A", workers=2, slots=1)
    script.whole_pass(0, 2)
    script.whole_pass(1, 2)
    script.update(0, 2, "first")
    script.update(1, 0, "stale")
    script.state()
    script.update(1, 2, "complete")
    script.state()
    return script.finish()


def epochs_ahead(size: int) -> Vector:
    script = Script(
        "epochs_ahead",
        size,
        """Epochs that a slot cannot have reached. A worker sends them if the aggregator has lost its memory. They are
        refused, and change nothing.""",
    )
    script.job("A", workers=2, slots=1)
    script.say("a slot begins with pass 0")
    script.update(0, 1, "ahead")
    script.update(0, 2, "ahead")
    script.update(0, 2**31 - 4, "ahead")
    script.state()
    script.update(0, 0, "first")
    script.say("pass 1 cannot begin before pass 0 is complete")
    script.update(1, 1, "ahead")
    script.update(1, 0, "complete")
    script.update(1, 1, "first")
    script.say("nor can pass 2 begin before pass 1 is complete")
    script.update(1, 2, "ahead")
    script.update(0, 3, "ahead")
    script.state()
    script.update(0, 1, "complete")
    script.update(0, 2, "first")
    script.state()
    return script.finish()


def epochs_wrap(size: int) -> Vector:
    script = Script(
        "epochs_wrap",
        size,
        """Epochs have 32 bits and wrap: 4294967295 is followed by 0. The slot begins three passes before that.""",
        needs=["first_epoch"],
    )
    first = 2**32 - 3
    script.job("A", workers=2, slots=1, first_epoch=first)
    script.state()
    for epoch in range(first, first + 2):
        script.whole_pass(epoch, 2)
    script.update(1, first + 2, "first")
    script.update(1, first + 2, "duplicate")
    script.update(0, first + 2, "complete")
    script.say("across the wrap")
    script.update(0, first + 3, "first")
    script.update(1, first + 2, "resend")
    script.update(1, first + 1, "stale")
    script.update(1, first + 3, "complete")
    script.state()
    script.whole_pass(first + 4, 2)
    script.say("packets from before the wrap, and from too far ahead")
    script.update(0, first + 2, "stale")
    script.update(0, first + 5 + 2, "ahead")
    # Half of all epochs away, but not exactly: an aggregator may count from any pass that it holds, so it may take the
    # very middle for stale or for ahead.
    script.update(0, first + 4 + 2**31 + 2, "stale")
    script.update(0, first + 3 + 2**31 - 3, "ahead")
    script.state()
    return script.finish()


def slots_in_any_order(size: int) -> Vector:
    script = Script(
        "slots_in_any_order",
        size,
        """Slots are independent: packets of four slots and two passes arrive in mixed order.""",
    )
    script.job("A", workers=2, slots=4)
    script.update(0, 0, "first", slot=3)
    script.update(0, 0, "first", slot=0)
    script.update(1, 0, "first", slot=2)
    script.update(1, 0, "complete", slot=0)
    script.update(0, 1, "first", slot=0)
    script.update(1, 0, "complete", slot=3)
    script.update(0, 0, "complete", slot=2)
    script.update(1, 1, "first", slot=2)
    script.update(1, 1, "complete", slot=0)
    script.update(0, 1, "complete", slot=2)
    script.update(1, 0, "first", slot=1)
    for slot in range(4):
        script.state(slot=slot)
    return script.finish()


def sums_wrap(size: int) -> Vector:
    script = Script(
        "sums_wrap",
        size,
        """Words are added modulo 2^32, as the user's integers must be. Each word is added alone, without a carry into
        its neighbour.""",
    )
    script.job("A", workers=3, slots=1)
    largest, smallest = 2**31 - 1, -(2**31)
    script.update(0, 0, "first", words=[largest] * size)
    script.update(1, 0, "added", words=run(1, 0, size))
    script.state()
    script.update(2, 0, "complete", words=[-1] * size)
    alternating = run(smallest, largest, size)  # every word and its neighbours overflow
    script.update(0, 1, "first", words=alternating)
    script.update(1, 1, "added", words=alternating)
    script.state()
    script.update(2, 1, "complete", words=run(-1, largest, size))
    script.state()
    return script.finish()


SCENARIOS = (
    stale_epochs,
    old_copies_complete_a_pass,
    epochs_ahead,
    epochs_wrap,
    slots_in_any_order,
    sums_wrap,
)
