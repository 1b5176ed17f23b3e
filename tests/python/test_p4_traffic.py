"""The Tofino program, run by the interpreter, in traffic that the vectors do not have.

Several packets are in the chip at the same time, workers contradict each other, and frames are not for the aggregator.
"""

from __future__ import annotations

import collections
import random
import shutil
import socket
import struct

import lossy_model
import pytest
from busy_chip import WORKERS, Switch, traffic
from conformance.devices import interpreter
from conformance.devices.interpreter import ADDRESS, HOSTS, PORTS, PROGRAM, ChipLink
from conformance.generate import WORDS
from conformance.script import Script, numbers
from interpreter.controller_tables import ChipTables
from interpreter.errors import UndefinedError
from interpreter.program import Program

from jaxina.controller import port_load
from jaxina.controller.chip import SIZES
from jaxina.controller.tables import Entry, Ternary

BUSY = 45  # seconds; generous, because a busy machine may need long for what usually takes no time


@pytest.fixture
def switch():
    made = []

    def make(*how):
        made.append(Switch(*how))
        return made[-1]

    yield make
    for one in made:
        one.plane.stop()


@pytest.mark.parametrize("mtu", [0, 2048], ids=["udp", "rdma"])
@pytest.mark.parametrize("size", WORDS)
def test_packets_that_are_in_the_chip_at_once_do_not_disturb_each_other(switch, size, mtu):
    _, most = traffic(switch(size, mtu), random.Random(size), losses=0)
    assert most == 8


@pytest.mark.parametrize("mtu", [0, 2048], ids=["udp", "rdma"])
@pytest.mark.parametrize("size", WORDS)
def test_every_sum_is_right_although_the_chip_loses_packets(switch, size, mtu):
    """The traffic manager drops updates and sums on their way between the pipes, and copies for the workers."""
    lost, _ = traffic(switch(size, mtu), random.Random(size), losses=0.05)
    assert {copy.bypass for copy in lost} == {True, False}


def test_one_packet_at_a_time_meets_losses_in_the_chip(switch):
    """So `lossy_model.py` sends to the chip's model. Here the interpreter takes its place."""
    link = ChipLink(ChipTables(Program(interpreter.text_of("two-pipes")), 0))
    made, chance, lost = switch("two-pipes", 0, None, link), random.Random(1), []
    link.tables.chip.loses = lambda copy: chance.random() < 0.1 and not lost.append(copy)
    assert lossy_model.traffic(made, chance) > 2 * 3 * 4, "losses make the workers send more than their updates"
    assert lost


# Name -> size, file, the original text, the text that replaces it.
UNSAFE = {
    "only a sum for all moves the turn": (
        *("one-pipe", "slot_turn.p4"),
        *("step == LAST_STEP) {", "step == LAST_STEP && hdr.passage.outcome == RESULT) {"),
    ),
    "an old sum moves the turn back": ("four-pipes", "slot_turn.p4", "if (value.turn == md.epoch)", "if (true)"),
    "the pipe before the last counts": (
        *("four-pipes", "ingress_parser.p4"),
        *("            LAST_CONSUME: parse_last_consuming;", "            2: parse_last_consuming;"),
    ),
    "later pipes add a repeated update": (
        *("four-pipes", "adder.p4"),
        *("(CONSUMING, _, 1) : read_high();", "(CONSUMING, SAME_PASS, 1) : add_both();"),
    ),
    "the first pipe drops what it has added": (
        *("four-pipes", "verdict.p4"),
        "(1, 1, 0, _, 0, SAME_PASS, _, _, _) : ask_later_pipes(NOW);",
        "(1, 1, 0, _, 0, SAME_PASS, _, 0, _) : ask_later_pipes(NOW); (1, 1, 0, _, 0, _, _, 1, _) : drop(PENDING);",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", UNSAFE)
def test_losses_in_the_chip_find_a_program_that_is_not_safe(switch, fault, tmp_path):
    size, file, old, new = UNSAFE[fault]
    folder = shutil.copytree(PROGRAM.parent, tmp_path / "tofino")
    text = (folder / file).read_text()
    assert text.count(old) == 1
    (folder / file).write_text(text.replace(old, new))
    program = interpreter.text_of(size, program=folder / PROGRAM.name)

    def ten_traffics():
        for seed in range(10):
            traffic(switch(size, 0, program), random.Random(seed), losses=0.1)

    with pytest.raises((AssertionError, UndefinedError)):
        ten_traffics()


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
    for port in PORTS:  # of which one has a larger number than any exclusion id
        assert chip.send(port, broadcast) == [(p, broadcast) for p in PORTS if p != port]
    assert chip.send(PORTS[1] + 1, broadcast) == []  # the switch's file does not name this port
    assert chip.send(PORTS[1], frame(0x020000000099)) == []


def test_status_tells_what_the_ports_carry_and_drop(switch):
    made = switch("four-pipes")
    before = made.plane.statistics()["ports"]
    lost, _ = traffic(made, random.Random(1), losses=0.1)
    after = made.plane.statistics()["ports"]
    grown = {port: {name: value - before[port][name] for name, value in told.items()} for port, told in after.items()}
    dropped = {port: told["dropped_at_egress"] for port, told in grown.items() if told["dropped_at_egress"]}
    assert lost and dropped == collections.Counter(copy.port for copy in lost)
    assert set(after) == {*PORTS, 68, 196, 324, 452} and all(told["up"] for told in after.values())
    for port in PORTS[:WORKERS]:
        assert grown[port]["packets_received"] > 0 < grown[port]["packets_sent"]
        assert grown[port]["bytes_received"] > 1024 * grown[port]["packets_received"]
    assert grown[PORTS[WORKERS]]["packets_received"] == grown[PORTS[WORKERS]]["packets_sent"] == 0


@pytest.mark.parametrize("size", WORDS)
def test_front_ports_in_loopback_stand_in_for_recirculation_ports(switch, size):
    """The lowest bits of a slot's index choose one of the ways for its packets."""
    made = switch(size)
    pipes = [step.pipe for step in port_load.steps(SIZES[size])]
    control = "Ingress.recirculation"
    for step, pipe in enumerate(pipes, 1):
        key, data = {"step": step, "lane": 1}, {"port": 128 * pipe + 20}
        made.tables.modify([Entry(f"pipe.{control}.next_pass", key, data, f"{control}.to_port")])
    ports = {128 * pipe + 20 for pipe in pipes}
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
