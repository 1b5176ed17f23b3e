"""Joins a chip that is no hardware to workers on this host: datagrams on one side, the chip's frames on the other."""

from __future__ import annotations

import contextlib
import socket

from conformance import datagram
from conformance.devices import frames
from conformance.devices.interpreter import MAC, PORTS, TablesOfAChip, entering, leaving
from conformance.devices.links import Address
from jaxina.controller.chip import Host
from jaxina.controller.chip_plane import UDP_PORT

_POLL = 0.2  # seconds
_BUFFER = 1 << 22  # bytes; workers send faster than the chip takes packets
_MOST_BYTES = 65535  # of a datagram
_KIND = 3  # the byte of a datagram that says its kind
_FIRST_MAC = 0x024A58010000


def host_at(address: str) -> Host:
    """Returns this host, at a port of the chip, as the chip's description has it."""
    return Host(address, _FIRST_MAC - 1, PORTS[-1])


class Wire:
    """Carries datagrams of this host's workers into the chip, and what leaves the chip to them.

    Args:
      tables: the chip.
      host: this host, with the IPv4 address to which workers send. The chip knows servers by it.

    Attributes:
      packets: how many datagrams have gone into the chip.
      sums: how many sums of a group's updates have left it.
    """

    def __init__(self, tables: TablesOfAChip, host: Host):
        self._tables = tables
        self._at = (host.ip, UDP_PORT)
        self._server = host.mac, host.port
        self.packets = self.sums = 0
        # (sender, payload), in order. A repetition that comes before the chip has taken the first one is lost.
        self._waiting: dict[tuple[Address, bytes], None] = {}
        self._stations: dict[Address, tuple[int, int]] = {}  # (MAC address, port) of each sender
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        self._socket.bind(self._at)

    def step(self) -> None:
        """Takes the next datagram into the chip, and sends what leaves it. Returns after a while if none comes.

        Raises:
          HarnessError: if the model cannot go on.
          UndefinedError: if the program's text does not say what happens.
        """
        self._receive()
        if not self._waiting:
            return
        sender, payload = next(iter(self._waiting))
        del self._waiting[sender, payload]
        new = _FIRST_MAC + len(self._stations), PORTS[len(self._stations) % len(PORTS)]
        self.packets += 1
        mac, port = self._stations.setdefault(sender, new)
        frame = frames.Frame(mac.to_bytes(6), sender, MAC, self._at, payload)
        for left_by, data in self._tables.send(port, entering(port, frame)):
            sent = leaving(left_by, data)
            station = int.from_bytes(sent.destination_mac), left_by
            known = (self._stations.get(sent.destination), self._server)
            assert station in known, f"a frame for {sent.destination} comes at {station}"
            self._socket.sendto(sent.payload, sent.destination)
            self.sums += sent.payload[_KIND] == datagram.KINDS["combined"]

    def _receive(self) -> None:
        """Takes all datagrams that have come. Waits for one if none is left from before."""
        self._socket.settimeout(0 if self._waiting else _POLL)
        with contextlib.suppress(TimeoutError, BlockingIOError):
            while True:
                payload, sender = self._socket.recvfrom(_MOST_BYTES)
                self._waiting[sender, payload] = None
                self._socket.settimeout(0)

    def close(self) -> None:
        self._socket.close()
