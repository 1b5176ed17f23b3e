"""The Tofino program, run by the interpreter, and the vectors' specification get the same random packets.

The packets are of two jobs. Some are late, early, repeated or wrong.
"""

from __future__ import annotations

import random

import pytest
from conformance.devices.interpreter import InterpretedDevice, text_of
from conformance.generate import WORDS
from conformance.rdma_script import RdmaScript
from conformance.runner import run
from conformance.script import Script
from conformance.vector import Count, Send

PACKETS = 400
JOBS = {"A": (3, 3), "B": (2, 1)}  # workers and slots
AWAY = [0] * 10 + [-1, -1, -2, -2, -3, -9, 1, 2, 5, 2**31 + 9]  # how far a packet's epoch is from the pass that is due
UDP_ERRORS = [{}] * 30 + [
    {"secret": "wrong"},
    {"job": "unknown", "secret": "unknown"},
    {"worker": 31},
    {"worker": 0xFFFF},
    {"slot": 3},
    {"slot": 0x8001},
    {"damage": "set:3=2"},
    {"damage": "cut:35"},
    {"damage": "append:4"},
]
RDMA_ERRORS = [{}] * 30 + [{"key": "wrong"}, {"queue": 1}, {"slot": 2}, {"length": 64}]


def due(script, job, slot):
    """Returns the pass that a slot sums, or will sum next."""
    latest = max(script.aggregator.slots[job, slot].versions.values(), key=_age)
    complete = latest.count == JOBS[job][0]
    return (latest.epoch + complete) % 2**32


def _age(version):
    return (version.epoch + 2) % 2**32


def sizes(epoch, slot, words, chance):
    """Returns the numbers of exponents and words in all updates of a pass. Some have no words, some no exponent."""
    chance = random.Random(f"{chance} {epoch} {slot}")
    empty = chance.random() < 0.15
    count = 1 if empty or chance.random() < 0.8 else 0
    return {"exponents": count, "words": 0 if empty else words}


def draw(script, chance, seed, rdma):
    job = chance.choice("AAB")
    workers, slots = JOBS[job]
    worker, slot = chance.randrange(workers), chance.randrange(slots)
    epoch = (due(script, job, slot) + chance.choice(AWAY)) % 2**32
    size = sizes(epoch, slot, script.size, seed)
    numbers = random.Random(f"{seed} {job} {worker} {slot} {epoch}")  # a repeated packet has the same numbers
    given = {
        "exponents": [numbers.randrange(1, 256) for _ in range(size["exponents"])],
        "words": [numbers.randrange(-(2**31), 2**31) for _ in range(size["words"])],
    }
    if rdma:
        packet = script.packets(worker, epoch, job=job, slot=slot, **given)[0]
    else:
        packet = script.packet(worker, epoch, job=job, slot=slot, **given)
    packet.fields.update(chance.choice(RDMA_ERRORS if rdma else UDP_ERRORS))
    return Send(f"{job}{worker}", packet)


def traffic(size, seed, rdma):
    """Returns a vector of random packets, with the replies that the specification gives."""
    chance = random.Random(seed)
    script = (RdmaScript if rdma else Script)("random", WORDS[size], "")
    for name, (workers, slots) in JOBS.items():
        if rdma:
            script.one_packet_job(name, workers, slots)
        else:
            script.job(name, workers, slots)
    for _ in range(PACKETS):
        sent = draw(script, chance, seed, rdma)
        script.vector.steps += [sent, *script.aggregator.on_packet(sent.endpoint, sent.packet)]
    for job, (_, slots) in JOBS.items():
        for slot in range(slots):
            script.state(job, slot)
    script.counts()
    return script.vector


@pytest.mark.parametrize("rdma", [False, True], ids=["udp", "rdma"])
@pytest.mark.parametrize("size", WORDS)
def test_the_program_does_with_random_packets_what_the_specification_does(size, rdma):
    wanted = traffic(size, f"{size} {rdma}", rdma)
    done = [count.fields for count in wanted.steps if isinstance(count, Count)]
    assert sum(counts.get("results", 0) for counts in done) > 25
    assert sum(counts.get("stale", 0) for counts in done) > 10
    device = InterpretedDevice(size, text_of(size))
    try:
        outcome = run(wanted, device)
    finally:
        device.close()
    assert not outcome.lacking and outcome.failures == []
