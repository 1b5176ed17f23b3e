"""ARP and pings for a Tofino switch's address: through the chip to the controller's host, and back."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import shutil
import socket
import struct
import subprocess
import sys

import pytest
from conformance.devices.interpreter import ADDRESS, HOSTS, PORTS, description, text_of
from control_fakes import eventually
from interpreter.controller_tables import ChipTables
from interpreter.program import Program

from jaxina.controller import chip
from jaxina.controller.answers import answer
from jaxina.controller.cpu_port import CpuPort, PacketSocket
from jaxina.controller.data_plane import TofinoPlane
from jaxina.errors import InvalidArgumentError, SystemCallError

CPU = chip.Cpu(64, "cpu0", 0x024A58000001)
MAC, HOST = CPU.mac.to_bytes(6), HOSTS[0]
MINE, THEIRS = socket.inet_aton(ADDRESS), socket.inet_aton(HOST.ip)
BROADCAST = b"\xff" * 6
WITHIN = 60  # seconds


def checksum(data):
    total = sum(struct.unpack(f">{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    return ~(total % 0xFFFF or 0xFFFF) & 0xFFFF  # 2**16 is 1 modulo 0xffff, and no sum of these is 0


def ethernet(destination, kind, payload, source=None):
    frame = destination + (source or HOST.mac.to_bytes(6)) + struct.pack(">H", kind) + payload
    return frame.ljust(60, b"\0")


def arp(operation=1, target=MINE, kind=b"\0\1\x08\0\6\4"):
    fields = struct.pack(">H6s4s6s4s", operation, HOST.mac.to_bytes(6), THEIRS, b"\0" * 6, target)
    return ethernet(BROADCAST, 0x0806, kind + fields)


def ping(data=b"odd length!", to=MINE, kind=8, first=0x45, fragment=0, wrong_ip=0, wrong_icmp=0, destination=MAC):
    message = struct.pack(">BBHHH", kind, 0, 0, 77, 3) + data
    message = message[:2] + struct.pack(">H", checksum(message) ^ wrong_icmp) + message[4:]
    header = struct.pack(">BBHHHBBH4s4s", first, 0, 20 + len(message), 5, fragment, 9, 1, 0, THEIRS, to)
    header = header[:10] + struct.pack(">H", checksum(header) ^ wrong_ip) + header[12:]
    return ethernet(destination, 0x0800, header + message)


def test_an_arp_request_gets_the_switchs_mac():
    reply = HOST.mac.to_bytes(6) + MAC + bytes.fromhex("0806 0001 0800 06 04 0002")
    reply += MAC + MINE + HOST.mac.to_bytes(6) + THEIRS
    assert answer(arp(), MAC, MINE) == reply + bytes(18)


@pytest.mark.parametrize("data", [b"", b"odd length!", bytes(range(200))])
def test_a_ping_comes_back(data):
    reply = answer(ping(data), MAC, MINE)
    assert reply[:14] == HOST.mac.to_bytes(6) + MAC + b"\x08\0"
    assert len(reply) == max(60, 42 + len(data))
    header, message = reply[14:34], reply[34 : 42 + len(data)]
    assert header[12:] == MINE + THEIRS and header[8:10] == b"\x40\1"
    assert struct.unpack(">H", header[2:4])[0] == 20 + len(message)
    assert checksum(header) == checksum(message) == 0
    assert message[:2] == b"\0\0" and message[4:] == struct.pack(">HH", 77, 3) + data


TAG = bytes.fromhex("81006064")  # priority 3, VLAN 100


def tagged(frame):
    return frame[:12] + TAG + frame[12:]


@pytest.mark.parametrize("frame", [arp(), ping(), ping(bytes(range(200)))])
def test_the_answer_to_a_tagged_frame_has_its_tag(frame):
    assert answer(tagged(frame), MAC, MINE) == tagged(answer(frame, MAC, MINE))


@pytest.mark.parametrize(
    "frame",
    [
        tagged(tagged(arp())),
        tagged(arp(target=THEIRS)),
        tagged(arp())[:15],
        arp(operation=2),
        arp(target=THEIRS),
        arp(kind=b"\0\1\x08\0\6\x10"),
        ping(kind=0),
        ping(to=THEIRS),
        ping(first=0x46),
        ping(fragment=0x2000),
        ping(fragment=1),
        ping(wrong_ip=1),
        ping(wrong_icmp=0x100),
        ping(destination=BROADCAST),
        ethernet(MAC, 0x86DD, bytes(40)),
        arp().replace(HOST.mac.to_bytes(6), MAC),
        arp().replace(HOST.mac.to_bytes(6), b"\x03" + bytes(5)),
        b"",
    ],
)
def test_other_frames_get_no_answer(frame):
    assert answer(frame, MAC, MINE) is None


def test_damaged_frames_get_no_answer_that_is_wrong():
    chance, whole = random.Random(1), ping()
    for frame in (arp(), whole):
        for length in range(len(frame.rstrip(b"\0"))):
            answer(frame[:length], MAC, MINE)  # raises nothing
    assert answer(whole[:-8], MAC, MINE) is None  # the message is longer than what has come
    for _ in range(2000):
        damaged = bytearray(whole)
        damaged[chance.randrange(14, 53)] ^= 1 << chance.randrange(8)
        assert answer(bytes(damaged), MAC, MINE) is None  # one of the checksums finds every flipped bit


def test_the_chip_takes_them_to_the_cpu_port_and_answers_back():
    tables = ChipTables(Program(text_of("one-pipe")), 0)
    fields = {name: getattr(description("one-pipe"), name) for name in ("size", "address", "ports", "hosts")}
    plane = TofinoPlane(tables, chip.Chip(**fields, worker_rate=1.0, cpu=CPU))
    try:
        request = arp()
        assert tables.send(HOST.port, request) == [(port, request) for port in (*PORTS[1:], CPU.port)]
        assert tables.send(HOST.port, ping()) == [(CPU.port, ping())]
        for frame in (request, ping()):
            reply = answer(frame, MAC, MINE)
            assert tables.send(CPU.port, reply) == [(HOST.port, reply)]
        gratuitous = ethernet(BROADCAST, 0x0806, bytes(28), source=MAC)
        assert tables.send(CPU.port, gratuitous) == [(port, gratuitous) for port in PORTS]
    finally:
        plane.stop()


def test_a_worker_on_the_controllers_host_is_handed_over_to_the_pools_pipe():
    ports = (chip.Port(4, 100, "none"),)
    described = chip.Chip(chip.SIZES["one-pipe"], ADDRESS, ports, (), 1.0, cpu=CPU)
    assert described.pipes == [0]
    assert dataclasses.replace(described, cpu=dataclasses.replace(CPU, port=192)).pipes == [0, 1]


def test_a_port_that_fails_is_logged_and_tried_again(caplog):
    class Failing:
        def __init__(self):
            self.come, self.sent, self.closed = [SystemCallError("no link"), arp(), ping()], [], False

        def receive(self, timeout):
            come = self.come.pop(0) if self.come else None
            if isinstance(come, Exception):
                raise come
            return come

        def send(self, frame):
            self.sent.append(frame)

        def close(self):
            self.closed = True

    frames = Failing()
    port = CpuPort(frames, chip.Chip(chip.SIZES["one-pipe"], ADDRESS, (), (), 1.0, cpu=CPU))
    assert eventually(lambda: len(frames.sent) == 2)
    port.stop()
    assert frames.closed and "no link" in caplog.text
    assert frames.sent == [answer(arp(), MAC, MINE), answer(ping(), MAC, MINE)]


_PING = f"""
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
s.settimeout({WITHIN})
s.sendto(struct.pack(">BBHHH", 8, 0, 0xf7ff, 0, 0), ("{ADDRESS}", 0))
while s.recv(100)[20] != 0:
    pass
"""


@contextlib.contextmanager
def link():
    """Makes an interface whose other end is in a namespace, with a host's address. Yields both names."""
    name = f"cpu{os.getpid()}"

    def ip(*arguments):
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    ip("netns", "add", name)
    try:
        ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", name, "up")
        ip("-n", name, "address", "add", f"{HOST.ip}/9", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        yield name
    finally:
        subprocess.run(["ip", "link", "delete", name], capture_output=True)
        ip("netns", "delete", name)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and iproute2")
def test_linux_finds_and_pings_the_switch():
    with link() as name:
        port = CpuPort(PacketSocket(name, CPU.mac), chip.Chip(chip.SIZES["one-pipe"], ADDRESS, (), (), 1.0, cpu=CPU))
        try:
            command = ["ip", "netns", "exec", name, sys.executable, "-c", _PING]
            done = subprocess.run(command, capture_output=True, text=True, timeout=2 * WITHIN)
            assert done.returncode == 0, done.stderr
            found = subprocess.run(["ip", "-n", name, "neigh"], capture_output=True, text=True).stdout
            assert f"{ADDRESS} dev eth0 lladdr 02:4a:58:00:00:01" in found
            # An interface that looks at addresses takes those of the switch. This one lets all pass.
            taken = subprocess.run(["bridge", "fdb", "show", "dev", name], capture_output=True, text=True).stdout
            assert "02:4a:58:00:00:01" in taken
        finally:
            port.stop()


_SEND = """
import socket, sys
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s:
    s.bind(("eth0", 0))
    s.send(bytes.fromhex(sys.argv[1]))
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and iproute2")
def test_a_frame_comes_with_the_tag_that_linux_takes_off():
    with link() as name:
        frames = PacketSocket(name, CPU.mac)
        try:
            for sent in (tagged(ping()), ping()):
                command = ["ip", "netns", "exec", name, sys.executable, "-c", _SEND, sent.hex()]
                subprocess.run(command, check=True, timeout=WITHIN)
                assert eventually(lambda sent=sent: frames.receive(1.0) == sent, timeout=WITHIN)
        finally:
            frames.close()


def test_an_interface_that_cannot_be_used_is_a_typed_error():
    with pytest.raises(InvalidArgumentError, match=r"nowhere0|CAP_NET_RAW"):
        PacketSocket("nowhere0", CPU.mac)
