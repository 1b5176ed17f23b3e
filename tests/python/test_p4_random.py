"""The Tofino program, run by the interpreter, and the vectors' specification get the same random packets."""

from __future__ import annotations

import pytest
from conformance import random_vectors
from conformance.devices.interpreter import InterpretedDevice, text_of
from conformance.generate import WORDS
from conformance.runner import run
from conformance.vector import Count


@pytest.mark.parametrize("rdma", [False, True], ids=["udp", "rdma"])
@pytest.mark.parametrize("size", WORDS)
def test_the_program_does_with_random_packets_what_the_specification_does(size, rdma):
    wanted = random_vectors.vector(WORDS[size], rdma, seed=1)
    done = [count.fields for count in wanted.steps if isinstance(count, Count)]
    assert sum(counts.get("results", 0) for counts in done) > 25
    assert sum(counts.get("stale", 0) for counts in done) > 10
    device = InterpretedDevice(size, text_of(size))
    try:
        outcome = run(wanted, device)
    finally:
        device.close()
    assert not outcome.lacking and outcome.failures == []
