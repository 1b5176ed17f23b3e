"""Scenarios of several jobs at one aggregator, of jobs with one and with many workers, and of jobs above jobs."""

from __future__ import annotations

from conformance.script import Script
from conformance.vector import Packet, Receive, Vector


def two_jobs_interleaved(size: int) -> Vector:
    script = Script(
        "two_jobs_interleaved",
        size,
        """Two jobs use the same slot numbers, epochs and worker numbers at the same time.""",
    )
    script.job("A", workers=2)
    script.job("B", workers=3)
    script.update(0, 0, "first")
    script.update(0, 0, "first", job="B", words=[7] * size)
    script.update(1, 0, "added", job="B", words=[8] * size)
    script.update(1, 0, "complete")
    script.update(1, 0, "duplicate", job="B", words=[8] * size)
    script.update(0, 1, "first")
    script.update(2, 0, "complete", job="B", words=[9] * size)
    script.update(0, 0, "resend")
    script.update(2, 0, "resend", job="B", words=[9] * size)
    script.update(1, 1, "complete")
    script.update(0, 1, "first", job="B")
    script.update(0, 0, "first", job="B", slot=1)
    script.update(1, 0, "first", slot=1)
    for slot in range(2):
        script.state("A", slot)
        script.state("B", slot)
    return script.finish()


def one_worker(size: int) -> Vector:
    script = Script("one_worker", size, """A job of one worker: every update completes its pass at once.""")
    script.job("A", workers=1, slots=1)
    for epoch in range(3):
        script.update(0, epoch, "complete")
        script.update(0, epoch, "resend")
    script.update(0, 0, "stale")
    script.state()
    return script.finish()


def many_workers(size: int) -> Vector:
    script = Script(
        "many_workers",
        size,
        """32 workers, which use every bit of the bitmap in a chip's register, the highest first.""",
    )
    script.job("A", workers=32, slots=1)
    order = [31, 0, 15, 16, *(w for w in range(32) if w not in (31, 0, 15, 16))]
    for epoch in range(2):
        for number, worker in enumerate(order):
            script.update(worker, epoch, ["first", "added"][number > 0] if number < 31 else "complete")
            if worker in (31, 0, 16):
                script.update(worker, epoch, "duplicate")
        script.state()
    script.update(31, 0, "resend")
    return script.finish()


def hierarchy(size: int) -> Vector:
    script = Script(
        "hierarchy",
        size,
        """Two racks (jobs A and B), and above them job R, whose workers are the racks. A rack's result becomes its
        update in R, with the same words and exponents. Job F has all four workers in one job, and R's result must equal
        F's.""",
    )
    script.job("A", workers=2, slots=1)
    script.job("B", workers=2, slots=1)
    script.job("R", workers=2, slots=1)
    script.job("F", workers=4, slots=1)
    for epoch in range(2):
        script.say(f"pass {epoch} in the racks")
        results = {}
        for rack, name in enumerate("AB"):
            for worker in range(2):
                packet = leaf(script, 2 * rack + worker, worker, name, epoch)
                replies = script.send(f"{name}{worker}", packet, ("first", "complete")[worker])
            results[name] = replies[0]
        script.say(
            "above: rack A's packet comes twice; rack B asks its own aggregator for the result again before it sends"
        )
        script.send("R0", upward(script, results["A"], 0), "first")
        script.send("R0", upward(script, results["A"], 0), "duplicate")
        script.send("B1", leaf(script, 3, 1, "B", epoch), "resend")
        root = script.send("R1", upward(script, results["B"], 1), "complete")
        script.say("the same four updates in one job")
        for worker in range(4):
            verdict = "complete" if worker == 3 else "added" if worker else "first"
            flat = script.send(f"F{worker}", leaf(script, worker, worker, "F", epoch), verdict)
        for field in ("words", "exponents", "epoch"):
            assert root[0].packet[field] == flat[0].packet[field], "a sum depends on its topology"
    script.state("R")
    script.state("F")
    return script.finish()


def leaf(script: Script, number: int, worker: int, job: str, epoch: int) -> Packet:
    """Returns the update of worker `number` of the four, who is worker `worker` of its job."""
    values = script.packet(number, epoch)
    return script.packet(worker, epoch, job=job, words=values["words"], exponents=values["exponents"])


def upward(script: Script, result: Receive, rack: int) -> Packet:
    packet = result.packet
    return script.packet(
        rack,
        packet["epoch"],
        job="R",
        words=packet["words"],
        exponents=packet["exponents"],
    )


SCENARIOS = (two_jobs_interleaved, one_worker, many_workers, hierarchy)
