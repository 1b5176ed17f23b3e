"""The Tofino program, run by the interpreter, passes the vectors. A program with one line changed fails some."""

from __future__ import annotations

import shutil

import pytest
from conformance import vector
from conformance.devices.interpreter import PROGRAM, InterpretedDevice, text_of
from conformance.generate import FOLDER, WORDS
from conformance.runner import run

# What some vectors need and the chip lacks: see "Terms that differ" in p4/README.md.
LACKING = {"checksum", "short", "blocks", "sizes", "mismatch", "messages", "narrow"}


def vectors(size):
    return [vector.read(path) for path in sorted((FOLDER / str(WORDS[size])).glob("*.txt"))]


def outcomes(size, text):
    """Yields the outcomes of the vectors that the chip can run."""
    device = InterpretedDevice(size, text)
    try:
        for wanted in vectors(size):
            outcome = run(wanted, device)
            if not outcome.lacking:
                yield outcome
    finally:
        device.close()


@pytest.mark.parametrize("size", WORDS)
def test_every_vector_that_the_chip_can_pass_does(size):
    done = list(outcomes(size, text_of(size)))
    assert [failure for one in done for failure in one.failures] == []
    passed = {one.vector.name for one in done}
    assert passed == {v.name for v in vectors(size) if not v.needs & LACKING}
    assert len(passed) == 26 and sum(name.startswith("rdma") for name in passed) == 5


NO_EPOCH_CHECK = {
    *("epochs_ahead", "epochs_wrap", "old_copies_complete_a_pass", "one_worker"),
    *("rdma_duplicates", "retransmission_after_completion", "stale_epochs", "stale_exponents"),
}


@pytest.mark.parametrize("size", WORDS)
def test_without_the_epoch_check_vectors_fail(size):
    done = outcomes(size, text_of(size, ["MUTANT_NO_EPOCH_CHECK"]))
    assert {one.vector.name for one in done if one.failures} == NO_EPOCH_CHECK


ONE_PIPE, FOUR_PIPES = "one-pipe", "four-pipes"
# Name -> size, file, the original text, the text that replaces it.
MUTATIONS = {
    "stamps are not checked": (
        *(ONE_PIPE, "worker_stamp.p4"),
        *("if (stamp.even == md.epoch)", "if (stamp.even == 0xfffffffe)"),
    ),
    "stamps are not written": (FOUR_PIPES, "worker_stamp.p4", "stamp.odd = md.epoch;", ""),
    "the count is not started": (ONE_PIPE, "worker_count.p4", "value = hdr.passage.others;", ""),
    "a retransmission is counted": (
        *(FOUR_PIPES, "worker_count.p4"),
        *("(SAME_PASS, 1) : look_up();", "(SAME_PASS, 1) : count_worker();"),
    ),
    "the largest exponent is lost": (
        *(ONE_PIPE, "exponent_maximum.p4"),
        *("value = max(value, md.exponent);", "value = md.exponent;"),
    ),
    "a pass's first words are added": (
        *(ONE_PIPE, "adder.p4"),
        *("(UDP_UPDATE, OTHER_PASS, 0) : write_both", "(UDP_UPDATE, OTHER_PASS, 0) : add_both"),
    ),
    "later pipes add a pass's first words": (
        *(FOUR_PIPES, "adder.p4"),
        *("(CONSUMING, OTHER_PASS, 0) : write_both", "(CONSUMING, OTHER_PASS, 0) : add_both"),
    ),
    "a retransmission's words are added": (
        *(ONE_PIPE, "adder.p4"),
        *("(UDP_UPDATE, _, 1) : read_high", "(UDP_UPDATE, _, 1) : add_both"),
    ),
    "high words are not added": (FOUR_PIPES, "adder.p4", "sum.high + high;", "high;"),
    "a result goes to one worker": (
        *(ONE_PIPE, "recirculation.p4"),
        "(LAST_STEP, RESULT, 1, false) : multicast_words",
        "(LAST_STEP, RESULT, 1, false) : copy_words_to_sender",
    ),
    "four pipes in a wrong order": (FOUR_PIPES, "recirculation.p4", "consume(2)", "consume(3)"),
    "a pipe is left out": (FOUR_PIPES, "recirculation.p4", "read_low(7)", "read_low(9)"),
    "the turn does not move on": (FOUR_PIPES, "slot_turn.p4", "value.turn = md.epoch + 1;", ""),
    "jobs share slots": (ONE_PIPE, "job_admission.p4", "md.slot + slot_base;", "md.slot;"),
    "a queue pair names any slot": (
        *(ONE_PIPE, "job_admission.p4"),
        *("(hdr.bth.qpn[9:0] == hdr.reth.slot[9:0])", "(md.well_formed == 1)"),
    ),
    "sequence numbers stand still": (FOUR_PIPES, "sequence_number.p4", "number = number + 1;", ""),
    "results lie at one place": (
        *(ONE_PIPE, "replies.p4"),
        *("md.place = hdr.reth.address_high[1:0];", "md.place = 0;"),
    ),
    "every copy is the sender's": (
        *(FOUR_PIPES, "replies.p4"),
        *("md.rid = eg_intr_md.egress_rid[12:0];", "md.rid = hdr.passage.rid;"),
    ),
    "metadata that nothing has set": (ONE_PIPE, "ingress_parser.p4", "md.contributed = 0;", ""),
}  # fmt: skip


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_changed_line_is_found(mutation, tmp_path):
    size, file, old, new = MUTATIONS[mutation]
    folder = shutil.copytree(PROGRAM.parent, tmp_path / "tofino")
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))
    tried = outcomes(size, text_of(size, program=folder / PROGRAM.name))
    assert any(one.failures for one in tried)
