"""A switch between two guests that adds what their reliable connections carry, for the first trial of NetReduce.

QEMU's `-netdev dgram` sends each Ethernet frame as a datagram of a unix socket. The switch holds a data packet until
the packet of the same number has come from the other worker, adds their words modulo 2^32, and lets both go on with the
sum as payload and a new ICRC. Headers stay as they are. All else passes byte for byte: acknowledgements, ARP, TCP.

It is written for the trial's ring of two workers: a packet's number is its PSN's distance from the first.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import random
import select
import signal
import socket
import sys
import zlib
from pathlib import Path

import numpy as np

IP, UDP, BTH = 14, 34, 42  # where they begin in a frame
ROCE_PORT = 4791
FIRST_PSN = 0xFFFFF0  # of both connections, as in rc_ring.cc
RETH, IMMEDIATE, ICRC = 16, 4, 4  # sizes
FIRST, MIDDLE, LAST, LAST_IMM, ONLY, ONLY_IMM = range(0x06, 0x0C)  # the RC transport's RDMA WRITE
ACKNOWLEDGE = 0x11


def icrc(frame: bytes) -> bytes:
    """The invariant CRC of the RoCEv2 packet in this frame, whose last four bytes are left out.

    Source: InfiniBand Architecture Specification, annex A17: fields that routers change count as ones.
    """
    masked = bytearray(b"\xff" * 8 + frame[IP:-ICRC])
    ip, udp, bth = 8, 8 + UDP - IP, 8 + BTH - IP
    masked[ip + 1] = masked[ip + 8] = 0xFF  # type of service, time to live
    masked[ip + 10 : ip + 12] = masked[udp + 6 : udp + 8] = b"\xff\xff"  # checksums
    masked[bth + 4] = 0xFF  # reserved, with the congestion bits
    return zlib.crc32(masked).to_bytes(4, "little")


@dataclasses.dataclass(frozen=True)
class Data:
    """An RDMA WRITE packet."""

    psn: int
    begin: int  # of the payload in the frame
    end: int


def is_roce(frame: bytes) -> bool:
    """Whether the frame is a RoCEv2 packet over IPv4 without options."""
    if len(frame) < BTH + 12 + ICRC or frame[12:14] != b"\x08\x00" or frame[IP] != 0x45 or frame[IP + 9] != 17:
        return False
    return int.from_bytes(frame[UDP + 2 : UDP + 4], "big") == ROCE_PORT


def data_of(frame: bytes) -> Data | None:
    """What the frame carries if it is an RDMA WRITE packet of a reliable connection."""
    if not is_roce(frame) or not FIRST <= frame[BTH] <= ONLY_IMM:
        return None
    opcode, padding = frame[BTH], frame[BTH + 1] >> 4 & 3
    begin = BTH + 12 + (RETH if opcode in (FIRST, ONLY, ONLY_IMM) else 0)
    begin += IMMEDIATE if opcode in (LAST_IMM, ONLY_IMM) else 0
    end = UDP + int.from_bytes(frame[UDP + 4 : UDP + 6], "big") - ICRC - padding
    return Data(int.from_bytes(frame[BTH + 9 : BTH + 12], "big"), begin, end)


class Switch:
    def __init__(self, ports: list[Path], options: argparse.Namespace) -> None:
        self.sockets = []
        for port in ports:
            one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            one.bind(str(port.with_suffix(".switch")))
            self.sockets.append(one)
        self.guests, self.options, self.random = [str(port) for port in ports], options, random.Random(options.seed)
        self.held: dict[int, dict[int, bytes]] = collections.defaultdict(dict)  # number: {port it came from: frame}
        self.sums: dict[int, np.ndarray] = {}
        self.counts: collections.Counter[str] = collections.Counter()

    def send(self, to: int, frame: bytes) -> None:
        try:
            self.sockets[to].sendto(frame, self.guests[to])
        except (FileNotFoundError, ConnectionRefusedError):
            self.counts["to a guest that is not there"] += 1

    def lost(self) -> bool:
        return self.random.random() < self.options.loss

    def take(self, came_from: int, frame: bytes) -> None:
        data = data_of(frame)
        if data is None:
            self.counts["passed"] += 1
            if is_roce(frame) and frame[BTH] == ACKNOWLEDGE and self.lost():
                self.counts["answers lost"] += 1
                return
            self.send(1 - came_from, frame)
            return
        if self.lost():
            self.counts["lost before the sum"] += 1
            return
        if icrc(frame) != frame[-ICRC:]:
            self.counts["wrong ICRC"] += 1
            return
        self.counts["data"] += 1
        if not self.options.sum:
            self.send(1 - came_from, frame)
            return
        number = (data.psn - FIRST_PSN) % 2**24
        if number in self.sums:
            self.counts["answered from the cache"] += 1
            self.release(number, came_from, frame)
            return
        held = self.held[number]
        self.counts["came again while held"] += came_from in held
        held[came_from] = frame
        if len(held) == 2:
            parts = [(frame, data_of(frame)) for frame in held.values()]
            self.sums[number] = sum(np.frombuffer(one[at.begin : at.end], "<u4") for one, at in parts if at)
            for port, one in self.held.pop(number).items():
                self.release(number, port, one)

    def release(self, number: int, came_from: int, frame: bytes) -> None:
        data = data_of(frame)
        assert data is not None
        summed = frame[: data.begin] + self.sums[number].tobytes() + frame[data.end :]
        assert len(summed) == len(frame)
        if self.lost():
            self.counts["lost behind the sum"] += 1
            return
        self.send(1 - came_from, summed[:-ICRC] + icrc(summed))

    def run(self) -> None:
        while True:
            for port in select.select(self.sockets, [], [])[0]:
                self.take(self.sockets.index(port), port.recv(65536))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ports", type=Path, nargs=2, help="the guests' sockets")
    parser.add_argument("--no-sum", dest="sum", action="store_false", help="pass everything on")
    parser.add_argument(
        "--loss", type=float, default=0.0, help="share of packets lost before, and again behind the sum"
    )
    parser.add_argument("--seed", type=int, default=1)
    switch = Switch((options := parser.parse_args()).ports, options)

    def end(*_: object) -> None:
        print("switch:", json.dumps(switch.counts))
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    switch.run()


if __name__ == "__main__":
    main()
