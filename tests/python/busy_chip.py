#!/usr/bin/env python3
"""A job's workers around the interpreted Tofino chip, with several packets in the chip at the same time.

    tests/python/busy_chip.py --traffics 1000 --seed 1

This runs random traffics in all sizes, over UDP and RDMA. The chip loses packets inside: between its pipes, and copies
for the workers. Workers lose results and repeat updates. Each sum that a worker takes must be exact, and each worker
must get all sums. The exit code is 1 if that did not hold, or if there was no traffic.
"""

from __future__ import annotations

import argparse
import math
import queue
import random
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "p4"))

from conformance import datagram
from conformance.devices import interpreter
from conformance.devices.interpreter import ADDRESS, ChipLink, description
from conformance.devices.rdma import RdmaWorkers
from conformance.generate import WORDS
from conformance.rdma_packet import End
from conformance.rdma_script import RdmaScript
from conformance.script import Script, numbers
from conformance.vector import Job
from interpreter.controller_tables import ChipTables
from interpreter.errors import UndefinedError
from interpreter.program import Program

from jaxina._native import JobShape
from jaxina.control.data_plane import QueuePairs
from jaxina.controller.data_plane import TofinoPlane

WORKERS, SLOTS, PASSES = 3, 2, 4  # of the jobs in tests; the campaign has smaller ones, too
TO = (ADDRESS, 51001)
_MOST_IN_THE_CHIP = 8  # packets
_MOST_STEPS = 5_000  # in a traffic; with one packet in ten lost in the chip, the longest of 40 took 2,083
RDMA_MTU = 2048
TELL_EVERY = 60  # seconds, of a campaign
LOSSES = (0.001, 0.1)  # the least and the most share of packets that the chip loses


class BusyLink(ChipLink):
    """A link whose packets wait in the chip until `step` moves them on."""

    def send(self, endpoint, to, payload):
        self.tables.chip.enter(*self.frame(endpoint, to, payload))

    def step(self, port):
        for at, sent in self.tables.chip.step(port):
            self.deliver(at, sent)


class Switch:
    """The chip and its controller, with one job, A. Without `link`, the chip is the interpreter."""

    def __init__(self, size, mtu=0, text=None, link=None, workers=WORKERS, slots=SLOTS):
        self.size, self.mtu = size, mtu
        self.link = link or BusyLink(ChipTables(Program(text or interpreter.text_of(size)), 0))
        self.tables = self.link.tables
        self.plane = TofinoPlane(self.tables, description(size))
        self.ended = queue.SimpleQueue()
        self.plane.ended = lambda *what: self.ended.put(what)
        self.id = 0
        self.begin_job(workers, slots)

    def next_job(self, workers=WORKERS, slots=SLOTS):
        """Ends the job, and begins the next one, in the same slots."""
        self.plane.remove_job(self.id)
        self.link.close_endpoints()
        self.begin_job(workers, slots)

    def begin_job(self, workers=WORKERS, slots=SLOTS):
        self.id += 1
        self.job = Job("A", workers, slots, WORDS[self.size], 1, mtu=self.mtu)
        self.names = datagram.Names({"A": self.id}, {"A": 2})
        shape = JobShape(devices=workers, workers=workers, slots=slots, block_size=self.job.block, blocks_per_chunk=1)
        self.plane.add_job(self.id, 2, shape)
        if self.mtu:
            self.rdma = RdmaWorkers(self.link, self.names, check_icrc=False)
            self.rdma.connect(self.job, self.connect)
        else:
            for worker in range(workers):
                self.link.open(f"A{worker}")
                self.now(worker, Script("", self.job.block, "").packet(worker, 2, words=()))

    def connect(self, job, worker, end, mtu):
        ours = QueuePairs(end.address, end.udp_port, mtu, end.qpns, end.psn, end.rkey, end.memory)
        theirs = self.plane.connect_queue_pairs(self.id, worker, ours)
        return End(ADDRESS, theirs.udp_port, theirs.qpns, theirs.psn, theirs.rkey, 0)

    def send(self, worker, packet):
        if self.job.mtu:
            self.rdma.send(f"A{worker}", packet)
        else:
            self.link.send(f"A{worker}", TO, datagram.encode(packet, self.names))

    def now(self, worker, packet):
        """Sends a packet while the chip has nothing else to do, and returns what comes back."""
        ChipLink.send(self.link, f"A{worker}", TO, datagram.encode(packet, self.names))
        came = self.link.receive(0)
        return [datagram.decode(payload, self.names, False) for _, _, payload in came]

    def received(self):
        """Yields (worker, slot, epoch, words) of the results that have come."""
        for endpoint, sender, payload in self.link.receive(0):
            if self.job.mtu:
                packet = self.rdma.decode(endpoint, sender, payload).packet
                assert packet.kind == "write_only_imm", packet
                slot, epoch = packet["queue"], packet["immediate"] - 0x1000
                assert packet["place"] == f"{slot}.{epoch % 4}"
            else:
                packet = datagram.decode(payload, self.names, False)
                if packet.kind != "result":
                    continue
                slot, epoch = packet["slot"], packet["epoch"]
            yield int(endpoint[1:]), slot, epoch, packet["words"]


class Workers:
    """Workers that have a pass under way in each slot. Each sends its update until it has the result."""

    def __init__(self, switch, chance, passes):
        self.switch = switch
        self.chance = chance
        self.passes = passes
        workers, slots = switch.job.workers, switch.job.slots
        self.epochs = {(w, s): 0 for w in range(workers) for s in range(slots)}
        self.due = set(self.epochs)  # (worker, slot) pairs whose update of the current pass has not been sent yet
        script = RdmaScript if switch.job.mtu else Script
        self.script = script("", switch.job.block, "")
        if switch.job.mtu:
            self.script.one_packet_job("A", workers, slots)

    def send(self):
        """Sends the update of a pass that has just begun, or repeats it, or repeats that of the pass before."""
        late = 0
        if self.due and self.chance.random() < 0.8:
            at = self.chance.choice(sorted(self.due))
            self.due.remove(at)
        else:
            at = self.chance.choice([at for at, epoch in self.epochs.items() if epoch < self.passes])
            late = self.chance.random() < 0.3
        (worker, slot), epoch = at, max(self.epochs[at] - late, 0)
        if self.switch.job.mtu:
            (packet,) = self.script.packets(worker, epoch, slot=slot)
        else:
            packet = self.script.packet(worker, epoch, slot=slot)
        self.switch.send(worker, packet)

    def receive(self):
        """Takes the results that have come, and loses one in ten."""
        for worker, slot, epoch, words in self.switch.received():
            assert epoch <= self.epochs[worker, slot]
            each = [numbers(w, epoch, slot, self.switch.job.block) for w in range(self.switch.job.workers)]
            if epoch == self.epochs[worker, slot] and self.chance.random() > 0.1:
                assert words == tuple(map(sum, zip(*each, strict=True))), (worker, slot, epoch)
                self.epochs[worker, slot] += 1
                self.due.discard((worker, slot))  # a repeated update may have brought the result of one that is due
                if self.epochs[worker, slot] < self.passes:
                    self.due.add((worker, slot))


def traffic(switch, chance, losses, passes=PASSES):
    """Runs a job of the switch until all workers have all sums.

    Packets keep their order at each port. Chance decides which port goes next, and what the chip loses.

    Args:
      switch: has a fresh job.
      chance: a random.Random.
      losses: the share of packets that the chip loses on their way to the next pass, and of copies for the workers.
      passes: of each slot.

    Returns:
      The copies that the chip has lost, and the most packets that it had at once.

    Raises:
      AssertionError: a sum is wrong, or the workers do not get all sums.
    """
    workers, chip = Workers(switch, chance, passes), switch.tables.chip
    lost, most = [], 0
    chip.loses = lambda copy: chance.random() < losses and not lost.append(copy)
    for _ in range(_MOST_STEPS):
        if min(workers.epochs.values()) == passes:
            break
        waiting = chip.waiting
        most = max(most, sum(waiting.values()))
        if sum(waiting.values()) < _MOST_IN_THE_CHIP and chance.random() < 0.5:
            workers.send()
        elif waiting:
            switch.link.step(chance.choice(sorted(waiting)))
        workers.receive()
    chip.loses = lambda copy: False
    while waiting := chip.waiting:
        switch.link.step(next(iter(waiting)))
    switch.link.receive(0)
    assert set(workers.epochs.values()) == {passes}, f"no progress: the workers' passes are {workers.epochs}"
    return lost, most


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traffics", type=int, default=1000, help="at most")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no traffic after so long")
    parser.add_argument("--seed", type=int, default=1, help="of the first traffic; the next has the next")
    parser.add_argument("--sizes", nargs="+", default=list(WORDS), choices=list(WORDS))
    parser.add_argument("--program", type=Path, default=interpreter.PROGRAM, help="another jaxina.p4")
    options = parser.parse_args()
    failed = lost = done = 0
    texts = {size: interpreter.text_of(size, program=options.program) for size in options.sizes}
    switches = [Switch(size, mtu, texts[size]) for size in options.sizes for mtu in (0, RDMA_MTU)]
    began = told = time.monotonic()
    for seed in range(options.seed, options.seed + options.traffics):
        if time.monotonic() - began > options.seconds:
            break
        if time.monotonic() - told > TELL_EVERY:
            told = time.monotonic()
            print(f"{done} traffics, {lost} packets lost in the chip, {failed} traffics failed", flush=True)
        done += 1
        switch = switches[seed % len(switches)]
        chance = random.Random(seed)
        losses = math.exp(chance.uniform(*map(math.log, LOSSES)))
        try:
            switch.next_job(workers=chance.randint(1, WORKERS), slots=chance.randint(1, SLOTS))
            lost += len(traffic(switch, chance, losses, passes=chance.randint(2, PASSES))[0])
        except (AssertionError, UndefinedError) as error:
            failed += 1
            print(f"seed {seed}, {switch.size}, {'rdma' if switch.mtu else 'udp'}, losses {losses:.4f}: {error}")
            switch.plane.stop()
            switches[seed % len(switches)] = Switch(switch.size, switch.mtu, texts[switch.size])
    print(f"{done} traffics, {lost} packets lost in the chip, {failed} traffics failed")
    for switch in switches:
        switch.plane.stop()
    return failed > 0 or not done


if __name__ == "__main__":
    sys.exit(main())
