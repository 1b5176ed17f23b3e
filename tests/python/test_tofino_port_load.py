"""The ports by which packets come round in a Tofino: what they must carry, and which jobs are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tofino_fakes import CHIP

from jaxina.controller import chip, port_load
from jaxina.controller.pool import Pool
from jaxina.errors import InvalidArgumentError, JobRejectedError

P4 = Path(__file__).parents[2] / "p4"


def described(tmp_path, size="four-pipes", rate=10, loopbacks=(), ports=(0, 4, 8, 12), speed=100):
    lines = [f'size = "{size}"', 'address = "198.18.0.1"', f"worker_rate = {rate}"]
    for number in ports:
        lines += ["[[port]]", f"number = {number}", f"speed = {speed}"]
    for number, hand_over in loopbacks:
        lines += ["[[loopback]]", f"number = {number}", f"hand_over = {str(hand_over).lower()}"]
    file = tmp_path / "chip.toml"
    file.write_text("\n".join(lines))
    return chip.read(file)


def jobs(made, *workers, slots=64):
    pool = Pool(made.size, entries_per_worker=2)
    return [pool.add(number, 0, count, slots, made.size.words, 1, rkey=0) for number, count in enumerate(workers)]


def test_the_load_is_the_bytes_of_the_passes(tmp_path):
    """The bytes of docs/tofino.md, by hand: 106 besides the words, 16 of the passage header, 4 a word."""
    made = described(tmp_path)
    update = [106 + 16 + 4 * words for words in (192, 128, 64)]
    sums = {3: [1], 2: [2, 3], 1: [4, 5], 0: [6, 7]}  # halves of a pipe's words in the packet, by pipe
    by_hand = {}
    for pipe, halves in sums.items():
        bytes_of_sums = sum(106 + 16 + 128 * half for half in halves)
        bytes_of_updates = 3 * update[pipe - 1] if pipe else 0
        by_hand[128 * pipe + 68] = 10 * (bytes_of_updates + bytes_of_sums) / (106 + 1024)
    assert port_load.load(made, jobs(made, 3)) == pytest.approx(by_hand)


def test_the_passage_header_has_the_bytes_that_the_load_counts():
    text = (P4 / "tofino" / "headers.p4").read_text()
    fields = re.search(r"header passage_h \{(.*?)\}", text, re.DOTALL).group(1)
    widths = {"PortId_t": 9, **{f"{name}_t": 8 for name in ("turn_of_pass", "outcome", "route")}}
    types = re.findall(r"(bit<\d+>|\w+_t) \w+;", fields)
    bits = sum(widths.get(name) or int(name[4:-1]) for name in types)
    assert bits == 8 * port_load._PASSAGE


def test_the_documented_tables_are_these():
    documented = (P4.parent / "docs" / "tofino.md").read_text()
    assert port_load.rates() in documented and port_load.needs() in documented


def test_loopback_ports_share_the_load_evenly(tmp_path):
    alone = port_load.load(made := described(tmp_path), jobs(made, 4))
    wide = described(tmp_path, loopbacks=[(148, False), (152, False), (156, False)])
    loads = port_load.load(wide, jobs(wide, 4))
    assert {port for port in loads if port // 128 == 1} == {148, 152, 156, 196}
    assert all(loads[port] == pytest.approx(alone[196] / 4) for port in (148, 152, 156, 196))
    assert loads[324] == pytest.approx(alone[324])


def test_few_slots_take_few_ways(tmp_path):
    made = described(tmp_path, loopbacks=[(148, False)])
    loads = port_load.load(made, jobs(made, 4, slots=1))
    assert 196 not in loads and loads[148] > 0


def test_what_is_handed_over_has_ports_of_its_own(tmp_path):
    """The pool's recirculation port is 68. Workers at ports of pipe 1 send half of what all send."""
    ports = (0, 132)
    shared = described(tmp_path, "one-pipe", rate=40, ports=ports)
    apart = described(tmp_path, "one-pipe", rate=40, ports=ports, loopbacks=[(20, False), (24, False), (28, True)])
    sums = 40 * (106 + 16 + 128) / (106 + 256)
    assert port_load.load(shared, jobs(shared, 2)) == pytest.approx({68: 80 + sums})
    assert port_load.load(apart, jobs(apart, 2)) == pytest.approx({68: 40, 28: 40, 20: sums / 2, 24: sums / 2})


def test_workers_cannot_send_more_than_the_ports_carry(tmp_path):
    made = described(tmp_path, rate=100, ports=(0, 4))
    assert port_load.load(made, jobs(made, 2, 2)) == pytest.approx(port_load.load(made, jobs(made, 2)), rel=0.5)
    assert port_load.load(made, jobs(made, 8))[196] < 4 * 100


def test_a_job_that_a_port_cannot_carry_is_refused(tmp_path):
    made = described(tmp_path, rate=30)
    port_load.check(made, jobs(made, 2))
    with pytest.raises(JobRejectedError, match=r"port 196, which carries 100.*\[\[loopback\]\] ports in pipe 1"):
        port_load.check(made, jobs(made, 4))
    wide = described(tmp_path, rate=30, loopbacks=[(128 * pipe + 20, False) for pipe in (1, 2, 3)])
    port_load.check(wide, jobs(wide, 4))
    handed = described(tmp_path, "one-pipe", rate=40, ports=(0, 132, 136, 140))
    with pytest.raises(JobRejectedError, match=r"port 68, .* with and without hand_over, in pipe 0"):
        port_load.check(handed, jobs(handed, 4))


@pytest.mark.parametrize(
    "lines,why",
    [
        ("[[loopback]]\nnumber = 4", "port 4 is there twice"),
        ("[[loopback]]\nnumber = 140", "loopback port 140 is in pipe 1, where no packet of the size one-pipe passes"),
        ("[[loopback]]\nnumber = 8\nspeed = 7", "port 8 has a speed"),
        ("\n".join(f"[[loopback]]\nnumber = {8 + n}" for n in range(65)), "65 loopback ports"),
    ],
)
def test_loopback_ports_that_there_cannot_be(tmp_path, lines, why):
    file = tmp_path / "chip.toml"
    file.write_text(CHIP.format(size="one-pipe") + lines)
    with pytest.raises(InvalidArgumentError, match=why):
        chip.read(file)


@pytest.mark.parametrize("rate", ["0", "-1", "101", '"fast"'])
def test_rates_that_there_cannot_be(tmp_path, rate):
    file = tmp_path / "chip.toml"
    file.write_text(CHIP.format(size="one-pipe").replace("worker_rate = 0.1", f"worker_rate = {rate}"))
    with pytest.raises(InvalidArgumentError, match=r"worker_rate|fast"):
        chip.read(file)


def test_hand_over_ports_are_in_the_pools_pipe(tmp_path):
    with pytest.raises(InvalidArgumentError, match="must be in pipe 0"):
        described(tmp_path, loopbacks=[(148, True)])
