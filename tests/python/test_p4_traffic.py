"""The Tofino program, run by the interpreter, in traffic that the vectors do not have.

Several packets are in the chip at the same time, workers contradict each other, and frames are not for the aggregator.
"""

from __future__ import annotations

import queue
import random
import socket
import struct

import pytest
from conformance import datagram
from conformance.devices import interpreter
from conformance.devices.interpreter import ADDRESS, HOSTS, PORTS, ChipLink, description
from conformance.devices.rdma import RdmaWorkers
from conformance.rdma_packet import End
from conformance.rdma_script import RdmaScript
from conformance.script import Script, numbers
from conformance.vector import Job
from interpreter.controller_tables import ChipTables
from interpreter.program import Program

from jaxina._native import JobShape
from jaxina.control.data_plane import QueuePairs
from jaxina.controller.data_plane import TofinoPlane
from jaxina.controller.tables import Entry, Ternary

WORDS = {"one-pipe": 64, "four-pipes": 256}
WORKERS, SLOTS, PASSES = 3, 2, 4
BUSY = 45  # seconds; generous, because a busy machine may need long for what usually takes no time
TO = (ADDRESS, 51001)


class BusyLink(ChipLink):
    """A link whose packets wait in the chip until `step` moves them on."""

    def send(self, endpoint, to, payload):
        self.tables.chip.enter(*self.frame(endpoint, to, payload))

    def step(self, port):
        for at, sent in self.tables.chip.step(port):
            self.deliver(at, sent)


class Switch:
    """The chip and its controller, with one job, A."""

    def __init__(self, size, mtu=0):
        self.job = Job("A", WORKERS, SLOTS, WORDS[size], 1, mtu=mtu)
        self.names = datagram.Names({"A": 1}, {"A": 2})
        self.tables = ChipTables(Program(interpreter.text_of(size)), 0)
        self.plane = TofinoPlane(self.tables, description(size))
        self.ended = queue.SimpleQueue()
        self.plane.ended = lambda *what: self.ended.put(what)
        shape = JobShape(devices=WORKERS, workers=WORKERS, slots=SLOTS, block_size=WORDS[size], blocks_per_chunk=1)
        self.plane.add_job(1, 2, shape)
        self.link = BusyLink(self.tables)
        if mtu:
            self.rdma = RdmaWorkers(self.link, self.names, check_icrc=False)
            self.rdma.connect(self.job, self.connect)
        else:
            for worker in range(WORKERS):
                self.link.open(f"A{worker}")
                self.now(worker, Script("", WORDS[size], "").packet(worker, 2, words=()))

    def connect(self, job, worker, end, mtu):
        ours = QueuePairs(end.address, end.udp_port, mtu, end.qpns, end.psn, end.rkey, end.memory)
        theirs = self.plane.connect_queue_pairs(1, worker, ours)
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


@pytest.fixture
def switch():
    made = []

    def make(*how):
        made.append(Switch(*how))
        return made[-1]

    yield make
    for one in made:
        one.plane.stop()


class Workers:
    """Workers that have a pass under way in each slot. Each sends its update until it has the result."""

    def __init__(self, switch, chance):
        self.switch = switch
        self.chance = chance
        self.epochs = {(w, s): 0 for w in range(WORKERS) for s in range(SLOTS)}
        self.due = set(self.epochs)  # (worker, slot) pairs whose update of the current pass has not been sent yet
        script = RdmaScript if switch.job.mtu else Script
        self.script = script("", switch.job.block, "")
        if switch.job.mtu:
            self.script.one_packet_job("A", WORKERS, SLOTS)

    def send(self):
        """Sends the update of a pass that has just begun, or repeats it, or repeats that of the pass before."""
        late = 0
        if self.due and self.chance.random() < 0.8:
            at = self.chance.choice(sorted(self.due))
            self.due.remove(at)
        else:
            at = self.chance.choice([at for at, epoch in self.epochs.items() if epoch < PASSES])
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
            each = [numbers(w, epoch, slot, self.switch.job.block) for w in range(WORKERS)]
            if epoch == self.epochs[worker, slot] and self.chance.random() > 0.1:
                assert words == tuple(map(sum, zip(*each, strict=True))), (worker, slot, epoch)
                self.epochs[worker, slot] += 1
                if self.epochs[worker, slot] < PASSES:
                    self.due.add((worker, slot))


@pytest.mark.parametrize("mtu", [0, 2048], ids=["udp", "rdma"])
@pytest.mark.parametrize("size", WORDS)
def test_packets_that_are_in_the_chip_at_once_do_not_disturb_each_other(switch, size, mtu):
    """Packets keep their order at each port. Chance decides which port goes next."""
    made, chance = switch(size, mtu), random.Random(size)
    workers, chip = Workers(made, chance), made.tables.chip
    most = 0
    for _ in range(5_000):
        if min(workers.epochs.values()) == PASSES:
            break
        waiting = chip.waiting
        most = max(most, sum(waiting.values()))
        if sum(waiting.values()) < 8 and chance.random() < 0.5:
            workers.send()
        elif waiting:
            made.link.step(chance.choice(sorted(waiting)))
        workers.receive()
    assert set(workers.epochs.values()) == {PASSES}
    assert most == 8


LOST_IN_THE_CHIP = 0.05


@pytest.mark.parametrize("mtu", [0, 2048], ids=["udp", "rdma"])
@pytest.mark.parametrize("size", WORDS)
def test_every_sum_is_right_although_the_chip_loses_packets(switch, size, mtu):
    """The traffic manager drops updates and sums on their way between the pipes, and copies for the workers."""
    made, chance = switch(size, mtu), random.Random(size)
    workers, chip = Workers(made, chance), made.tables.chip
    lost = []
    chip.loses = lambda copy: chance.random() < LOST_IN_THE_CHIP and not lost.append(copy)
    for _ in range(10_000):
        if min(workers.epochs.values()) == PASSES:
            break
        waiting = chip.waiting
        if sum(waiting.values()) < 8 and chance.random() < 0.5:
            workers.send()
        elif waiting:
            made.link.step(chance.choice(sorted(waiting)))
        workers.receive()
    assert set(workers.epochs.values()) == {PASSES}
    assert any(copy.bypass for copy in lost) and not all(copy.bypass for copy in lost)


@pytest.mark.parametrize("size", WORDS)
def test_a_contradiction_ends_the_job(switch, size):
    made = switch(size)
    packet = Script("", WORDS[size], "").packet
    assert made.now(0, packet(0)) == []
    assert made.now(1, packet(1, fingerprint=5)) == []
    job, code, message = made.ended.get(timeout=BUSY)
    assert (job, code) == (1, "MISMATCH") and "worker 1" in message
    made.plane.abort_job(1, code, message)
    assert made.now(2, packet(2)) == made.now(0, packet(0)) == []
    counted = made.plane.statistics()["jobs"][1]
    assert counted["rejected"] == {"mismatch": 1, "aborted": 2, "unheard": WORKERS}
    assert (counted["updates"], counted["results"]) == (1, 0)
    made.plane.remove_job(1)
    answers = [answer.kind for answer in made.now(0, packet(0))]
    assert answers == (["refused"] if size == "one-pipe" else [])


def test_other_traffic_is_forwarded(switch):
    chip = switch("one-pipe").tables.chip

    def frame(destination, protocol=6, kind=0x0800):
        ip = struct.pack(">BBHHHBBHI", 0x45, 0, 40, 0, 0, 64, protocol, 0, 1)
        ip += socket.inet_aton(ADDRESS)
        ethernet = destination.to_bytes(6) + HOSTS[0].mac.to_bytes(6) + struct.pack(">H", kind)
        return (ethernet + ip).ljust(60, b"x")

    for data in (frame(HOSTS[3].mac), frame(HOSTS[3].mac, 17), frame(HOSTS[3].mac, kind=0x86DD)):
        assert chip.send(PORTS[0], data) == [(HOSTS[3].port, data)]
    broadcast = frame(2**48 - 1)
    assert chip.send(PORTS[1], broadcast) == [(p, broadcast) for p in PORTS if p != PORTS[1]]
    assert chip.send(PORTS[1], frame(0x020000000099)) == []


@pytest.mark.parametrize("size", WORDS)
def test_front_ports_in_loopback_stand_in_for_recirculation_ports(switch, size):
    """The lowest bits of a slot's index choose one of four ways for its packets."""
    made = switch(size)
    steps = [0] if size == "one-pipe" else [1, 2, 3, 3, 2, 2, 1, 1, 0, 0]  # the pipe of each step, from step 1 on
    control = "Ingress.recirculation"
    for step, pipe in enumerate(steps, 1):
        key, data = {"step": step, "lane": 1}, {"port": 128 * pipe + 20}
        made.tables.modify([Entry(f"pipe.{control}.next_pass", key, data, f"{control}.to_port")])
    ports = {128 * pipe + 20 for pipe in steps}
    made.tables.chip.loopback |= ports
    for port in sorted(ports):
        members = [Entry("pipe.IngressParser.loopback_ports", {"f1": Ternary(port, 0x1FF)})]
        made.tables.insert(members)
    update, seen = Script("", WORDS[size], "").packet, set()
    for worker in range(WORKERS):
        made.send(worker, update(worker, slot=1))
        while waiting := made.tables.chip.waiting:
            seen |= set(waiting)
            made.link.step(next(iter(waiting)))
    each = [numbers(worker, 0, 1, WORDS[size]) for worker in range(WORKERS)]
    words = tuple(map(sum, zip(*each, strict=True)))
    assert sorted(made.received()) == [(worker, 1, 0, words) for worker in range(WORKERS)]
    assert ports <= seen and (size == "one-pipe" or not seen & {196, 324, 452})
