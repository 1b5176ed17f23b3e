"""Compares the frames that come to a switch at two interfaces with those that leave it. Usage: frames_pass.py A B

On SIGTERM it prints how many passed each way, and exits with 0 if what left at each interface is exactly what came at
the other one, byte for byte, and if there was something.
"""

import collections
import select
import signal
import socket
import struct
import sys
import time

ALL = 0x0003  # ETH_P_ALL
OUTGOING = 4  # PACKET_OUTGOING
SO_RCVBUFFORCE = 33
SOL_PACKET, PACKET_STATISTICS = 263, 6
MAX_FRAME = 1 << 17


class Port:
    """Counts the frames of an interface, by their bytes."""

    def __init__(self, interface: str):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)
        self.socket.bind((interface, ALL))
        self.socket.setblocking(False)
        self.came: collections.Counter[bytes] = collections.Counter()
        self.left: collections.Counter[bytes] = collections.Counter()

    def read(self) -> None:
        try:
            while True:
                frame, address = self.socket.recvfrom(MAX_FRAME)
                (self.left if address[2] == OUTGOING else self.came)[frame] += 1
        except BlockingIOError:
            return

    def overlooked(self) -> int:
        return struct.unpack("II", self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]


def main() -> int:
    ports = [Port(name) for name in sys.argv[1:3]]
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(time.monotonic()))
    while not ended or time.monotonic() < ended[0] + 0.5:  # the last frames may be on their way
        select.select([port.socket for port in ports], [], [], 0.1)
        for port in ports:
            port.read()
    for source, target in (ports, ports[::-1]):
        came, left = source.came, target.left
        print(
            f"frames that came: {came.total()}, that left at the other port: {left.total()}, of which as they came: ",
            end="",
        )
        print((came & left).total())
    overlooked = sum(port.overlooked() for port in ports)
    print(f"frames that were not compared: {overlooked}")
    same = ports[0].came == ports[1].left and ports[1].came == ports[0].left
    return 0 if same and sum(port.came.total() for port in ports) > 1000 and overlooked == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
