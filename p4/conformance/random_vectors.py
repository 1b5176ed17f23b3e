"""Makes vectors of random packets of two jobs, with the replies that the specification gives.

Some packets are late, early, repeated or wrong. They have whole blocks or no words, as a packet processor takes them.
"""

from __future__ import annotations

import random

from conformance.rdma_script import RdmaScript
from conformance.script import Script
from conformance.specification import Version
from conformance.vector import Send, Value, Vector

_PACKETS = 400
_JOBS = {"A": (3, 3), "B": (2, 1)}  # workers and slots
_AWAY = [0] * 10 + [-1, -1, -2, -2, -3, -9, 1, 2, 5, 2**31 + 9]  # how far a packet's epoch is from the pass that is due
_NO_ERROR: dict[str, Value] = {}
_UDP_ERRORS: list[dict[str, Value]] = [_NO_ERROR] * 30 + [
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
_RDMA_ERRORS: list[dict[str, Value]] = [_NO_ERROR] * 30 + [{"key": "wrong"}, {"queue": 1}, {"slot": 2}, {"length": 64}]


def vector(words: int, rdma: bool, seed: int) -> Vector:
    """Returns a vector of random packets, with the replies that the specification gives.

    Args:
      words: of a block.
      rdma: whether the packets are RDMA messages.
      seed: of the random numbers.
    """
    name = f"random_{'rdma' if rdma else 'udp'}_{seed}"
    chance = random.Random(f"{words} {name}")
    script = (RdmaScript if rdma else Script)(name, words, "")
    for job, (workers, slots) in _JOBS.items():
        if isinstance(script, RdmaScript):
            script.one_packet_job(job, workers, slots)
        else:
            script.job(job, workers, slots)
    for _ in range(_PACKETS):
        sent = _draw(script, chance, name)
        script.vector.steps += [sent, *script.aggregator.on_packet(sent.endpoint, sent.packet)]
    for job, (_, slots) in _JOBS.items():
        for slot in range(slots):
            script.state(job, slot)
    script.counts()
    return script.vector


def _draw(script: Script, chance: random.Random, name: str) -> Send:
    job = chance.choice("AAB")
    workers, slots = _JOBS[job]
    worker, slot = chance.randrange(workers), chance.randrange(slots)
    epoch = (_due(script, job, slot) + chance.choice(_AWAY)) % 2**32
    exponents, words = _sizes(epoch, slot, script.size, name)
    drawn = random.Random(f"{name} {job} {worker} {slot} {epoch}")  # a repeated packet has the same numbers
    given = {
        "exponents": [drawn.randrange(1, 256) for _ in range(exponents)],
        "words": [drawn.randrange(-(2**31), 2**31) for _ in range(words)],
    }
    if isinstance(script, RdmaScript):
        packet = script.packets(worker, epoch, job=job, slot=slot, **given)[0]
        packet.fields.update(chance.choice(_RDMA_ERRORS))
    else:
        packet = script.packet(worker, epoch, job=job, slot=slot, **given)
        packet.fields.update(chance.choice(_UDP_ERRORS))
    return Send(f"{job}{worker}", packet)


def _due(script: Script, job: str, slot: int) -> int:
    """Returns the pass that a slot sums, or will sum next."""
    latest = max(script.aggregator.slots[job, slot].versions.values(), key=_age)
    complete = latest.count == _JOBS[job][0]
    return (latest.epoch + complete) % 2**32


def _age(version: Version) -> int:
    return (version.epoch + 2) % 2**32


def _sizes(epoch: int, slot: int, words: int, name: str) -> tuple[int, int]:
    """Returns the numbers of exponents and words in all updates of a pass. Some have no words, some no exponent."""
    chance = random.Random(f"{name} {epoch} {slot}")
    empty = chance.random() < 0.15
    return (1 if empty or chance.random() < 0.8 else 0), 0 if empty else words
