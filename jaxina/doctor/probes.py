"""Probes between two hosts: whether packets and connections pass, how large packets may be, and what the clocks say.

A probe is a datagram with the meeting's secret. The other side answers each with a short one, so the two directions are
measured apart, and nobody can use a host to send others more than he has sent himself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import selectors
import socket
import struct
import threading
import time

from jaxina.errors import InvalidArgumentError

_MAGIC = b"jaxina-doctor"
_SECRET = 16  # bytes
_HEAD = struct.Struct(f"!{len(_MAGIC)}s{_SECRET}sI")  # magic, secret, number
_ANSWER = struct.Struct("!IId")  # number, bytes received, the other host's clock
_PACKETS = 20  # probes that find loss, latency and the clocks
_TRIES = 3  # probes of one size, all of which must vanish
_PATIENCE = 0.5  # seconds for an answer
_CONNECT = 2.0  # seconds
_SMALLEST = 576  # bytes of the smallest packet that is tried

# Linux' numbers, which Python's socket module lacks.
_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER, _PROBE = 10, 23, 3


@dataclasses.dataclass(frozen=True)
class Measured:
    """What one host has found about the way to another.

    Attributes:
      tcp: why no connection can be made; empty if one can.
      lost: the share of small packets without an answer.
      latency_s: the shortest time from a packet to its answer; None if none came.
      mtu: the largest packet that arrives unfragmented, in bytes; 0 if none does.
      ahead_s: how far the other host's clock is ahead of this one's; None if no answer came.
    """

    tcp: str
    lost: float
    latency_s: float | None
    mtu: int
    ahead_s: float | None


class Responder:
    """Answers probes, and takes connections, until `stop`.

    Args:
      address: this host's numeric address.
      port: of UDP and of TCP; 0 lets the system choose two.

    Attributes:
      udp, tcp: the ports.
      secret: of the meeting. Nothing is answered before it is set.

    Raises:
      InvalidArgumentError: it cannot listen there.
    """

    def __init__(self, address: str, port: int = 0):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.secret = b""
        self._packets = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._packets.bind((address, port))
            self._connections = socket.create_server((address, port), family=family)
        except OSError as error:
            self._packets.close()
            raise InvalidArgumentError(f"the doctor cannot listen at port {port}: {error.strerror}") from error
        self.udp, self.tcp = self._packets.getsockname()[1], self._connections.getsockname()[1]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jaxina-doctor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._packets.close()
        self._connections.close()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._packets, selectors.EVENT_READ)
            selector.register(self._connections, selectors.EVENT_READ)
            while not self._stopping.is_set():
                for key, _ in selector.select(0.1):
                    with contextlib.suppress(OSError):
                        self._packet() if key.fileobj is self._packets else self._connections.accept()[0].close()

    def _packet(self) -> None:
        packet, source = self._packets.recvfrom(65536)
        if len(packet) < _HEAD.size:
            return
        magic, secret, number = _HEAD.unpack_from(packet)
        if magic == _MAGIC and self.secret and secret == self.secret:
            self._packets.sendto(_ANSWER.pack(number, len(packet), time.time()), source)


class _Way:
    """The way from this host to a responder."""

    def __init__(self, own: str, address: str, port: int, secret: bytes):
        v6 = ":" in address
        self._socket = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(
            *((socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER) if v6 else (socket.IPPROTO_IP, _IP_MTU_DISCOVER)), _PROBE
        )
        self._socket.bind((own, 0))
        self._socket.connect((address, port))
        self.headers = 48 if v6 else 28  # bytes of UDP and IP
        self._secret = secret
        self._number = 0

    def close(self) -> None:
        self._socket.close()

    def send(self, size: int) -> tuple[float, float] | None:
        """Sends a packet of so many bytes, headers included. Returns how long the answer took, and how far the other
        clock is ahead; None if no answer came."""
        self._number += 1
        head = _HEAD.pack(_MAGIC, self._secret, self._number)
        began, sent = time.monotonic(), time.time()
        try:
            self._socket.send(head.ljust(size - self.headers, b"\0"))
            while (left := began + _PATIENCE - time.monotonic()) > 0:
                self._socket.settimeout(left)
                number, received, clock = _ANSWER.unpack(self._socket.recv(2048))
                if (number, received) == (self._number, max(size - self.headers, len(head))):
                    took = time.monotonic() - began
                    return took, clock - (sent + took / 2)
        except (OSError, struct.error):
            pass
        return None


def measure(own: str, address: str, udp: int, tcp: int, mtu: int, secret: bytes) -> Measured:
    """Probes the way from this host to another.

    Args:
      own: this host's numeric address.
      address: the other host's.
      udp: the port of its responder for packets.
      tcp: the port of its responder for connections.
      mtu: of this host's interface, in bytes. No larger packets are tried.
      secret: the meeting's.
    """
    try:
        with socket.create_connection((address, tcp), timeout=_CONNECT, source_address=(own, 0)):
            why = ""
    except OSError as error:
        why = str(error)
    way = _Way(own, address, udp, secret)
    try:
        answers = [answer for _ in range(_PACKETS) if (answer := way.send(_HEAD.size + way.headers)) is not None]
        lost = 1 - len(answers) / _PACKETS
        if not answers:
            return Measured(why, lost, None, 0, None)
        latency, ahead = min(answers)
        return Measured(why, lost, latency, _largest(way, mtu), ahead)
    finally:
        way.close()


def _largest(way: _Way, mtu: int) -> int:
    """The largest packet that arrives, from `_SMALLEST` to `mtu` bytes; 0 if none of these does."""

    def arrives(size: int) -> bool:
        return any(way.send(size) is not None for _ in range(_TRIES))

    mtu = min(mtu, 65535)
    if arrives(mtu):
        return mtu
    good, bad = _SMALLEST, mtu
    if not arrives(good):
        return 0
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if arrives(middle) else (good, middle)
    return good
