"""Checks every field of the 16-packet message and its reply that `verbs_capture message` has printed.

It decodes them with scapy, which has its own decoder for the BTH and its own computation of the ICRC.

Usage: decode_message.py < console-output
"""

from __future__ import annotations

import struct
import sys

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.packet import Packet

FIRST, MIDDLE, LAST_IMM = 0x26, 0x27, 0x29
MESSAGE = 16 * 1024
WORKER, SWITCH = "10.9.0.1", "10.9.0.2"


def frames(console: str) -> list[Packet]:
    lines = (line for line in console.splitlines() if line.startswith("frame "))
    return [IP(bytes.fromhex(line.split()[1])) for line in lines]


def check(packets: list[Packet], source: str, destination: str) -> tuple[int, int, int]:
    """Checks the packets of one message. Returns the message's address, rkey and immediate."""
    assert len(packets) == 16, f"{len(packets)} packets from {source}"
    first = packets[0][BTH]
    address = rkey = immediate = -1
    for number, packet in enumerate(packets):
        bth = packet[BTH]
        opcode = FIRST if number == 0 else LAST_IMM if number == 15 else MIDDLE
        assert (packet.src, packet.dst, packet[UDP].dport) == (source, destination, 4791)
        assert (bth.opcode, bth.version, bth.padcount, bth.pkey) == (opcode, 0, 0, 0xFFFF), number
        assert (bth.dqpn, bth.psn) == (first.dqpn, (first.psn + number) % 2**24), number
        assert bth.compute_icrc(bytes(bth)) == struct.pack("!I", bth.icrc), f"ICRC of {number}"
        data = bytes(bth.payload)
        if opcode == FIRST:
            address, rkey, length = struct.unpack("!QII", data[:16])
            assert length == MESSAGE
            data = data[16:]
        elif opcode == LAST_IMM:
            (immediate,) = struct.unpack("!I", data[:4])
            data = data[4:]
        expected = struct.pack("!256i", *range(256 * number, 256 * (number + 1)))
        assert data == expected, f"words of packet {number}"
    print(
        f"{source} -> {destination}: 16 packets, queue pair {first.dqpn:#x}, PSN {first.psn} to "
        f"{packets[15][BTH].psn}, address {address:#x}, rkey {rkey:#x}, length {MESSAGE}, "
        f"immediate {immediate:#x}, 16 ICRCs right"
    )
    return address, rkey, immediate


def main() -> None:
    captured = frames(sys.stdin.read())
    update = check([p for p in captured if p.src == WORKER], WORKER, SWITCH)
    result = check([p for p in captured if p.src == SWITCH], SWITCH, WORKER)
    assert update[0] == 0, "pass 0 of slot 0 without exponents"
    assert update[2] == result[2], "the reply returns the fingerprint"
    assert update[1] != result[1], "each side has a key of its own"


if __name__ == "__main__":
    main()
