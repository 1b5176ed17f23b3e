"""Makes vectors of random packets of two jobs for switches that combine updates, with what the specification sends.

Some packets are late, early, repeated or wrong. Results come in any order, too.
"""

from __future__ import annotations

import random

from conformance.combiner_script import CombinerScript
from conformance.combiner_specification import children_of
from conformance.specification import ALL
from conformance.vector import Packet, Send, Value, Vector

_PACKETS = 400
_JOBS = {"A": (3, 3, 2, "1:0+2"), "B": (2, 2, 1, "")}  # workers, slots, servers, groups below
_TRANSMISSIONS = ("first",) * 6 + ("again",) * 4 + ("uncombined",)
_AWAY = (0,) * 12 + (-1, -1, -2, 1, 1, 2, 2**20, 2**31)  # how far a packet's epoch is from the pass that is due
# Milliseconds. All sums are 18 below an entry's lifetime or 8 above it, because packets take time in the chip's model.
_WAITS = (26, 78, 130, 260, 442)
_NO_ERROR: dict[str, Value] = {}
_ERRORS: list[dict[str, Value]] = [_NO_ERROR] * 40 + [
    {"secret": "wrong"},
    {"job": "unknown", "secret": "unknown"},
    {"slot": 3},
    {"damage": "cut:35"},
]


def vector(words: int, seed: int, entries: int | None, chip: bool = False) -> Vector:
    """Returns a vector of random packets, with what the specification sends.

    Args:
      words: of a block.
      seed: of the random numbers.
      entries: how many entries the jobs share. None: more than they have slots. A chip remembers collided passes for
        each slot and not for each entry, so it passes these only.
      chip: whether the switch is a chip, with stamps.
    """
    name = f"random_{'chip' if chip else entries or 'many'}_{seed}"
    chance = random.Random(name)
    script = CombinerScript(name, words, "", chip)
    if entries is not None:
        script.table(entries)
    for job, (workers, slots, servers, below) in _JOBS.items():
        script.combined_job(job, workers, slots, servers, below)
    due = {(job, slot): 0 for job, (_, slots, _, _) in _JOBS.items() for slot in range(slots)}
    for _ in range(_PACKETS):
        if chance.random() < 0.05:
            script.wait(chance.choice(_WAITS))
        sent = _draw(script, chance, due)
        script.vector.steps += [sent, *script.combiner.on_packet(sent.endpoint, sent.packet)]
    script.counts()
    return script.vector


def _draw(script: CombinerScript, chance: random.Random, due: dict[tuple[str, int], int]) -> Send:
    job, slot = chance.choice(sorted(due))
    epoch = (due[job, slot] + chance.choice(_AWAY)) % 2**32
    if chance.random() < 0.2:
        # The slot's server sends a result, and the next pass is due.
        due[job, slot] += epoch == due[job, slot]
        server = f"{job}s{slot % script.combiner.jobs[job].servers}"
        fields = dict(script.of(0, epoch, job=job, slot=slot, mark=chance.random() < 0.1).fields)
        del fields["transmission"]
        return Send(server if chance.random() < 0.9 else f"{job}1", Packet("result", {**fields, "worker": ALL}))
    endpoint = chance.choice(sorted(children_of(script.combiner.jobs[job])))
    name = endpoint.removeprefix(job)
    worker = (
        name if name.startswith("g") and chance.random() < 0.8 else children_of(script.combiner.jobs[job])[endpoint][0]
    )
    how = chance.choice(_TRANSMISSIONS)
    packet = script.of(worker, epoch, how, job=job, slot=slot, mark=chance.random() < 0.1, exponents=(1 + epoch % 250,))
    packet.fields.update(chance.choice(_ERRORS))
    return Send(endpoint, packet)
