"""Scenarios of losses, duplicates and retransmissions: SwitchML's Algorithm 3, and the example of its Appendix A."""

from __future__ import annotations

from conformance.script import Script
from conformance.vector import Vector


def appendix_a(size: int) -> Vector:
    script = Script(
        "appendix_a",
        size,
        """SwitchML, Appendix A: three workers and one slot (x = 1), which goes from offset `off` (epoch 0) to the next
        offset (epoch 1). The paper's w1, w2, w3 are workers 0, 1, 2. The paper's switch ignores a retransmission of an
        incomplete pass; here it is answered with the workers seen so far.""",
    )
    script.job("A", workers=3)
    x = {"slot": 1}
    script.say("t0: w1 sends its update")
    script.update(0, 0, "first", **x)
    script.say("t1: w2 sends its update")
    script.update(1, 0, "added", **x)
    script.say("t2, t3: w3's update is lost on its way up")
    script.say("t4: w1 times out and retransmits; ignored, it was aggregated already")
    script.update(0, 0, "duplicate", **x)
    script.say("t5: w2 times out and retransmits; ignored as well")
    script.update(1, 0, "duplicate", **x)
    script.state(slot=1)
    script.say("t6: w3's retransmission completes the slot: three responses. t7: that to w1 is lost")
    script.update(2, 0, "complete", **x)
    script.state(slot=1)
    script.say("t8: w1 retransmits a second time, and gets the result by unicast")
    script.update(0, 0, "resend", **x)
    script.say("t9, t10, t12, t13: w2 and w3 have the result and go on with the next offset")
    script.update(1, 1, "first", **x)
    script.update(2, 1, "added", **x)
    script.say("t11, t14, t15: so does w1; the slot is complete, and the roles of its copies change")
    script.update(0, 1, "complete", **x)
    script.state(slot=1)
    return script.finish()


def algorithm_3(size: int) -> Vector:
    script = Script(
        "algorithm_3",
        size,
        """Every branch of SwitchML's Algorithm 3, with an epoch where the paper has a version bit. There are two
        workers and one slot. The line numbers are the paper's.""",
    )
    script.job("A", workers=2, slots=1)
    script.say("lines 4 to 9: not seen, and the first of its pass: it overwrites the slot")
    script.update(0, 0, "first")
    script.state()
    script.say("lines 18, 22, 23: seen already, and the pass is incomplete: nothing is added")
    script.update(0, 0, "duplicate")
    script.say(
        "lines 10 to 15: not seen and not the first: it is added; the pass is complete: the result goes to all workers"
    )
    script.update(1, 0, "complete")
    script.state()
    script.say("lines 18 to 21: seen already, and the pass is complete: the result goes to this worker only")
    script.update(1, 0, "resend")
    script.say("the same with the other version; lines 16, 17: the pass is incomplete: nothing is sent")
    script.update(1, 1, "first")
    script.say("line 19 for the version that is not in use: its result is still there")
    script.update(0, 0, "resend")
    script.update(0, 1, "complete")
    script.state()
    script.say("lines 7 to 9 again: the third pass overwrites what the first one left, and does not add to it")
    script.update(1, 2, "first")
    script.state()
    script.update(0, 2, "complete")
    script.state()
    return script.finish()


def duplicates(size: int) -> Vector:
    script = Script(
        "duplicates",
        size,
        """Each worker's update comes several times, before and after the other workers' updates. Each counts once.""",
    )
    script.job("A", workers=3, slots=1)
    for epoch in range(3):
        script.say(f"pass {epoch}")
        script.update(2, epoch, "first")
        script.update(2, epoch, "duplicate")
        script.update(0, epoch, "added")
        script.update(2, epoch, "duplicate")
        script.update(0, epoch, "duplicate")
        script.update(0, epoch, "duplicate")
        script.update(1, epoch, "complete")
        for worker in (1, 2, 0, 1):
            script.update(worker, epoch, "resend")
    script.state()
    return script.finish()


def retransmission_after_completion(size: int) -> Vector:
    script = Script(
        "retransmission_after_completion",
        size,
        """A worker misses a result while the others go on. The result is repeated unchanged until the pass after next
        begins, and that pass cannot begin before this worker has the result.""",
    )
    script.job("A", workers=3, slots=1)
    script.whole_pass(0, 3)
    script.say("the others begin pass 1; worker 2 asks for the result of pass 0 again and again")
    script.update(0, 1, "first")
    script.update(2, 0, "resend")
    script.update(1, 1, "added")
    script.update(2, 0, "resend")
    script.say("worker 2 has it and completes pass 1; a late copy of its request still finds the old result")
    script.update(2, 1, "complete")
    script.update(2, 0, "resend")
    script.state()
    script.say("pass 2 takes the place of pass 0: requests for that one are stale now")
    script.update(1, 2, "first")
    script.update(2, 0, "stale")
    script.state()
    return script.finish()


SCENARIOS = (appendix_a, algorithm_3, duplicates, retransmission_after_completion)
