"""The Tofino program, run by the interpreter, passes the vectors. A program with one line changed fails some."""

from __future__ import annotations

import pytest
from conformance import vector
from conformance.devices.interpreter import InterpretedDevice, text_of
from conformance.generate import FOLDER, WORDS
from conformance.mutants import MUTANTS, finders
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


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_changed_line_is_found(mutant, tmp_path):
    program = MUTANTS[mutant].write(tmp_path / "tofino")
    size = MUTANTS[mutant].size
    device = InterpretedDevice(size, text_of(size, program=program))
    try:
        assert next(finders(size, device), None)
    finally:
        device.close()
