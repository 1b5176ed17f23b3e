#!/usr/bin/env python3
"""Jobs around the interpreted Tofino chip that combines updates, with several packets in the chip at the same time.

    tests/python/busy_combiner.py --traffics 1000 --seed 1

This runs random traffics of two jobs that share few entries. The chip loses packets inside: sums and passes that
collided, on their way to the next pass, and copies for the workers. Networks lose, repeat and delay packets, and time
passes, so that entries expire. Every sum that leaves the chip must be exact for its set of workers, and each worker
must get all results. The exit code is 1 if that did not hold, or if there was no traffic.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import math
import random
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "p4"))

from conformance import datagram
from conformance.combiner_script import CombinerScript
from conformance.devices.atp import TO, InterpretedAtp
from conformance.devices.interpreter import text_of
from conformance.script import numbers
from conformance.vector import Packet, Receive, Vector
from conformance.words import wrap
from interpreter.errors import UndefinedError

WORDS = 64
JOBS = {"A": 3, "B": 2}  # workers
SLOTS, PASSES, ENTRIES = 2, 4, 2
_MOST_IN_THE_CHIP = 8  # packets
_MOST_STEPS = 20_000  # in a traffic
_LOSSES = (0.001, 0.1)  # the least and the most share of packets that the chip loses
_TRANSMISSIONS = ("first", "again", "direct")


@dataclasses.dataclass
class Pass:
    """A pass at its server: the sum of the workers that it has."""

    seen: frozenset[int] = frozenset()
    words: tuple[int, ...] = (0,) * WORDS


def exact(job: str, workers: frozenset[int], slot: int, epoch: int) -> tuple[int, ...]:
    """Returns the sum of some workers' words."""
    each = [numbers(worker, epoch, slot, WORDS) for worker in workers]
    return tuple(wrap(sum(column)) for column in zip(*each, strict=True))


class Traffic:
    """One traffic: the chip, the workers and the servers.

    Args:
      device: runs the program.
      chance: a random.Random.
      losses: the share of packets that the chip loses inside.

    Attributes:
      lost: how many packets the chip has lost.
      sums: how many sums have left it.
      most: the most packets that it had at once.
    """

    def __init__(self, device: InterpretedAtp, chance: random.Random, losses: float):
        self.chance, self.device = chance, device
        self.script = CombinerScript("busy", WORDS, "")
        self.script.table(ENTRIES)
        for job, workers in JOBS.items():
            self.script.combined_job(job, workers, slots=SLOTS)
        device.begin(Vector("busy", {"combine"}, self.script.vector.steps))
        self.chip = device.tables.chip
        self.lost = self.sums = self.most = 0
        self.chip.loses = lambda copy: self._loses(losses)
        owners = [
            (job, worker, slot) for job, workers in JOBS.items() for worker in range(workers) for slot in range(SLOTS)
        ]
        self.epochs = dict.fromkeys(owners, 0)
        self.sent = dict.fromkeys(owners, 0)  # transmissions of the current pass
        self.servers: dict[tuple[str, int, int], Pass] = collections.defaultdict(Pass)
        self.late: list[tuple[str, Packet]] = []  # copies that come later

    def run(self) -> None:
        """Runs until all workers have all results. Raises AssertionError if a sum is wrong or they do not get them."""
        for _ in range(_MOST_STEPS):
            if min(self.epochs.values()) == PASSES:
                break
            waiting = self.chip.waiting
            inside = sum(waiting.values())
            self.most = max(self.most, inside)
            if inside < _MOST_IN_THE_CHIP and self.chance.random() < 0.5:
                self._send()
            elif waiting:
                self._step(self.chance.choice(sorted(waiting)))
            if self.chance.random() < 0.02:
                self.device.wait(self.chance.choice((20, 90, 250)))
        self.chip.loses = lambda copy: False
        while waiting := self.chip.waiting:
            self._step(next(iter(waiting)))
        assert set(self.epochs.values()) == {PASSES}, f"no progress: the workers' passes are {self.epochs}"

    def _loses(self, share: float) -> bool:
        loses = self.chance.random() < share
        self.lost += loses
        return loses

    def _enter(self, endpoint: str, packet: Packet) -> None:
        payload = datagram.encode(packet, self.device.names)
        self.chip.enter(*self.device.link.frame(endpoint, TO, payload))

    def _send(self) -> None:
        """Sends an update for the first time or again, or a copy of an old packet."""
        if self.late and self.chance.random() < 0.2:
            self._enter(*self.late[self.chance.randrange(len(self.late))])
            return
        job, worker, slot = self.chance.choice([at for at, epoch in self.epochs.items() if epoch < PASSES])
        at = job, worker, slot
        epoch, transmission = self.epochs[at], _TRANSMISSIONS[min(self.sent[at], 2)]
        self.sent[at] += 1
        packet = self.script.of(worker, epoch, transmission, job=job, slot=slot)
        if transmission == "direct":
            self._serve(job, packet)  # not by way of the chip
            return
        if self.chance.random() < 0.3:
            self.late.append((f"{job}{worker}", packet))
        if self.chance.random() > 0.05:
            self._enter(f"{job}{worker}", packet)

    def _step(self, port: int) -> None:
        for left_by, frame in self.chip.step(port):
            self.device.link.deliver(left_by, frame)
        for received in self.device.replies(0):
            self._take(received)

    def _take(self, received: Receive) -> None:
        packet, job = received.packet, received.endpoint[0]
        assert packet.kind in ("update", "combined", "result"), packet
        if packet.kind != "result":
            self._serve(job, packet)
        elif self.chance.random() > 0.05:
            self._finish((job, int(received.endpoint[1:]), int(packet["slot"])), packet)

    def _serve(self, job: str, packet: Packet) -> None:
        """Does what a server does (docs/atp.md, "The rule"), and sends results."""
        slot, epoch = int(packet["slot"]), int(packet["epoch"])
        everybody = frozenset(range(JOBS[job]))
        group = packet.kind == "combined"
        workers = everybody if group else frozenset({int(packet["worker"])})
        assert packet["words"] == exact(job, workers, slot, epoch), (job, packet)
        self.sums += group
        held = self.servers[job, slot, epoch]
        complete = held.seen == everybody
        if not held.seen & workers:
            held.words = tuple(wrap(a + b) for a, b in zip(held.words, packet["words"], strict=True))
            held.seen |= workers
        elif held.seen < workers:
            held.words, held.seen = packet["words"], workers
        if held.seen != everybody or (complete and packet["transmission"] == "first"):
            return
        result = self.script.of(0, epoch, job=job, slot=slot, words=held.words).fields
        del result["transmission"]
        answer = Packet("result", {**result, "worker": "all"})
        self.late.append((f"{job}s0", answer))
        self._enter(f"{job}s0", answer)
        if packet["transmission"] == "direct" and self.chance.random() > 0.05:
            self._finish((job, int(packet["worker"]), slot), answer)

    def _finish(self, at: tuple[str, int, int], packet: Packet) -> None:
        """Takes a result, if it is that of the worker's pass."""
        job, _, slot = at
        if packet["epoch"] == self.epochs[at]:
            assert packet["words"] == exact(job, frozenset(range(JOBS[job])), slot, int(packet["epoch"]))
            self.epochs[at] += 1
            self.sent[at] = 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traffics", type=int, default=1000, help="at most")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no traffic after so long")
    parser.add_argument("--seed", type=int, default=1, help="of the first traffic; the next has the next")
    parser.add_argument("--program", type=Path, default=None, help="another atp.p4")
    options = parser.parse_args()
    device = InterpretedAtp(text_of("atp", program=options.program))
    failed = lost = done = sums = 0
    began = time.monotonic()
    for seed in range(options.seed, options.seed + options.traffics):
        if time.monotonic() - began > options.seconds:
            break
        done += 1
        chance = random.Random(seed)
        losses = math.exp(chance.uniform(*map(math.log, _LOSSES)))
        traffic = Traffic(device, chance, losses)
        try:
            traffic.run()
        except (AssertionError, UndefinedError) as error:
            failed += 1
            print(f"seed {seed}, losses {losses:.4f}: {error}")
        lost, sums = lost + traffic.lost, sums + traffic.sums
        device.end()
    print(f"{done} traffics, {sums} sums, {lost} packets lost in the chip, {failed} traffics failed")
    return failed > 0 or not done


if __name__ == "__main__":
    sys.exit(main())
