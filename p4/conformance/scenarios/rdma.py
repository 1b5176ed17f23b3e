"""Scenarios of RDMA writes with immediate (docs/rdma.md).

A message is one packet; or it is one packet for each block, and one for the exponents.
"""

from __future__ import annotations

from conformance.rdma_script import RdmaScript
from conformance.vector import Packet, Vector


def rdma_one_block(size: int) -> Vector:
    script = RdmaScript(
        "rdma_one_block",
        size,
        """Chunks of one block: first the look-ahead pass with exponents only, then data and exponents, then data only.
        Results go to the place `epoch mod 4` of their slot.""",
    )
    script.one_packet_job("A", workers=2)
    script.message(0, 0, "first", words=(), exponents=(90,))
    script.message(1, 0, "complete", words=(), exponents=(110,))
    for epoch in range(1, 5):
        script.message(1, epoch, "first")
        script.message(0, epoch, "complete")
        script.state()
    script.message(0, 5, "first", exponents=())
    script.message(1, 5, "complete", exponents=())
    script.state()
    return script.finish()


def rdma_message(size: int) -> Vector:
    script = RdmaScript(
        "rdma_message",
        size,
        """Messages of four blocks and their exponents, from two workers at once. Their packets interleave.""",
        needs=["messages"],
    )
    script.many_packet_job("A", workers=2, slots=2)
    for epoch in range(2):
        ours, theirs = (script.packets(worker, epoch) for worker in range(2))
        for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            last = index == len(ours) - 1
            script.send("A0", mine, "first" if last else "placed")
            script.send("A1", other, "complete" if last else "placed")
        script.state()
    return script.finish()


def rdma_lost_packet(size: int) -> Vector:
    script = RdmaScript(
        "rdma_lost_packet",
        size,
        """A packet of a message is lost: the first, one in the middle, or the last. All packets up to the next
        message's first one are dropped, and the worker sends the whole message again. Nothing of a broken message is
        counted.""",
        needs=["messages"],
    )
    script.many_packet_job("A", workers=2)
    script.say("the middle one")
    script.message(0, 0, "first", lost=[2])
    script.state()
    script.message(1, 0, "first")
    script.message(0, 0, "complete")
    script.state()
    script.say("the last one, of the other worker")
    script.message(0, 1, "first")
    script.message(1, 1, "complete", lost=[4])
    script.message(1, 1, "complete")
    script.say("the first one")
    script.message(1, 2, "first", lost=[0])
    script.message(1, 2, "first")
    script.message(0, 2, "complete")
    script.state()
    return script.finish()


def rdma_out_of_order(size: int) -> Vector:
    script = RdmaScript(
        "rdma_out_of_order",
        size,
        """Packets of a message are reordered or come twice: the message is lost. A packet that is a whole message is
        taken whatever its number.""",
        needs=["messages"],
    )
    script.many_packet_job("A", workers=2)
    script.say("the third before the second")
    first, second, third, fourth, last = script.packets(0, 0)
    script.send("A0", first, "placed")
    for packet in (third, second, fourth, last):
        script.send("A0", packet, "rdma_out_of_sequence")
    script.say("the second twice")
    first, second, third, fourth, last = script.packets(0, 0)
    script.send("A0", first, "placed")
    script.send("A0", second, "placed")
    for packet in (second, third, fourth, last):
        script.send("A0", packet, "rdma_out_of_sequence")
    script.say("a new first packet gives up the message before it")
    first, second, *_ = script.packets(0, 0)
    script.send("A0", first, "placed")
    script.send("A0", second, "placed")
    script.message(0, 0, "first", psn=77)
    script.state()
    script.message(1, 0, "complete")
    script.say("messages of one packet, with any number, even one that was used before")
    script.message(0, 1, "first", words=(), psn=5)
    script.message(1, 1, "complete", words=(), psn=0)
    script.message(0, 1, "resend", words=(), psn=5)
    script.state()
    return script.finish()


def rdma_sequence_wrap(size: int) -> Vector:
    script = RdmaScript(
        "rdma_sequence_wrap",
        size,
        """Sequence numbers have 24 bits: 16777215 is followed by 0 in the middle of a message.""",
        needs=["messages"],
    )
    script.many_packet_job("A", workers=2)
    script.message(0, 0, "first", psn=2**24 - 2)
    script.message(1, 0, "complete", psn=2**24 - 4)
    script.message(0, 1, "first")
    script.message(1, 1, "complete")
    script.state()
    return script.finish()


def rdma_duplicates(size: int) -> Vector:
    script = RdmaScript(
        "rdma_duplicates",
        size,
        """Whole messages come again: early, late and much too late; and one has an epoch ahead of the slot.""",
    )
    script.one_packet_job("A", workers=2, slots=1)
    script.message(0, 0, "first")
    script.message(0, 0, "duplicate")
    script.message(1, 1, "ahead")
    script.message(1, 0, "complete")
    script.message(0, 0, "resend")
    script.message(0, 1, "first")
    script.message(1, 0, "resend")
    script.message(1, 1, "complete")
    script.message(1, 2, "first")
    script.message(0, 0, "stale")
    script.state()
    script.message(0, 2, "complete")
    script.state()
    return script.finish()


def rdma_no_access(size: int) -> Vector:
    script = RdmaScript(
        "rdma_no_access",
        size,
        """Writes with a wrong key, on another slot's queue pair, or with more exponents than a chunk has; and writes on
        queue pairs that do not exist or belong to another worker.""",
    )
    script.one_packet_job("A", workers=2)
    script.one_packet_job("B", workers=2)
    # Its words are unlike all others, so the sum would show if one of these packets counted.
    good = script.packets(0, exponents=(), words=(7,) * size)[0]
    script.say("a wrong key")
    script.send("A0", changed(good, key="wrong"), "rdma_no_access")
    script.say("slot 1 on the queue pair of slot 0, and the other way round; a slot that does not exist")
    script.send("A0", changed(good, slot=1), "rdma_no_access")
    script.send("A0", changed(good, queue=1), "rdma_no_access")
    script.send("A0", changed(good, slot=2), "rdma_no_access")
    script.say("more exponents than blocks")
    script.send("A0", changed(good, count=2), "rdma_no_access")
    script.say("a queue pair that does not exist; that of worker 0, from another endpoint")
    script.send("A0", changed(good, queue="unknown"), "rdma_unknown_queue_pair")
    script.send("A1", good, "rdma_unknown_queue_pair")
    script.state()
    script.message(0, 0, "first", exponents=())
    script.message(1, 0, "complete", exponents=())
    script.state()
    return script.finish()


def rdma_wrong_length(size: int) -> Vector:
    script = RdmaScript(
        "rdma_wrong_length",
        size,
        """Packets whose size is not the one that their message says: larger, smaller, or more than a chunk.""",
    )
    script.one_packet_job("A", workers=2, slots=1)
    only = script.packets(0)[0]
    script.send("A0", changed(only, length=4 * size), "rdma_bad_length")
    script.send("A0", changed(only, words=(3,) * (size - 1)), "rdma_bad_length")
    script.send("A0", changed(only, words=(3,) * (size + 1)), "rdma_bad_length")
    script.send("A0", changed(only, exponents=()), "rdma_bad_length")
    # Two words more than a chunk would not do: where a switch adds any number of words, they may be the check of the
    # result.
    script.say("a message that is larger than a chunk with its check")
    long = changed(only, words=(3,) * (size + 3), length=4 * (size + 3) + 4)
    script.send("A0", long, "rdma_no_access")
    script.state()
    script.message(0, 0, "first")
    script.message(1, 0, "complete")
    script.state()
    return script.finish()


def rdma_wrong_length_of_parts(size: int) -> Vector:
    script = RdmaScript(
        "rdma_wrong_length_of_parts",
        size,
        """Packets of a longer message, with wrong sizes.""",
        needs=["messages"],
    )
    script.many_packet_job("A", workers=2, blocks=1)
    first, last = script.packets(0)
    script.say("a first packet that would have to be the last one, or that is too short")
    script.send("A0", changed(first, length=4 * size), "rdma_bad_length")
    script.send("A0", changed(first, words=(3,) * (size - 1)), "rdma_bad_length")
    script.say("a last packet that is too long, and then the right one: too late")
    script.send("A0", first, "placed")
    script.send("A0", changed(last, exponents=(1, 2, 3, 4, 5, 6, 7, 8)), "rdma_bad_length")
    script.send("A0", last, "rdma_out_of_sequence")
    script.state()
    script.message(0, 0, "first")
    script.message(1, 0, "complete")
    script.state()
    return script.finish()


def rdma_two_jobs(size: int) -> Vector:
    script = RdmaScript("rdma_two_jobs", size, """Two jobs with the same slots and epochs send by turns.""")
    script.one_packet_job("A", workers=2)
    script.one_packet_job("B", workers=3)
    script.message(0, 0, "first")
    script.message(0, 0, "first", job="B")
    script.message(2, 0, "added", job="B")
    script.message(1, 0, "complete")
    script.message(1, 0, "complete", job="B")
    script.message(0, 1, "first")
    script.message(0, 0, "resend", job="B")
    script.state("A")
    script.state("B")
    return script.finish()


def rdma_mismatch(size: int) -> Vector:
    script = RdmaScript(
        "rdma_mismatch",
        size,
        """Two workers whose immediates differ sum different things. The last notice ends the job.""",
        needs=["mismatch"],
    )
    script.one_packet_job("A", workers=2, slots=1)
    script.message(0, 0, "first", exponents=())
    other = script.packets(1, exponents=())[0]
    script.send("A1", changed(other, immediate=0x77), "mismatch")
    script.message(0, 0, "aborted", exponents=())
    return script.finish()


def changed(packet: Packet, **changes: object) -> Packet:
    return Packet(packet.kind, {**packet.fields, **changes})  # type: ignore[dict-item]


SCENARIOS = (
    rdma_one_block,
    rdma_message,
    rdma_lost_packet,
    rdma_out_of_order,
    rdma_sequence_wrap,
    rdma_duplicates,
    rdma_no_access,
    rdma_wrong_length,
    rdma_wrong_length_of_parts,
    rdma_two_jobs,
    rdma_mismatch,
)
