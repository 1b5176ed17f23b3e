"""Links: ways to send datagrams from many endpoints to a device, and to receive the replies."""

from __future__ import annotations

import selectors
import socket
from typing import Protocol

Address = tuple[str, int]  # of a UDP socket: IPv4 address and port

_IP_MTU_DISCOVER, _IP_PMTUDISC_DO = 10, 2  # Linux: never fragment, so that the IP identification is 0


class Link(Protocol):
    def open(self, endpoint: str) -> Address:
        """Makes an endpoint and returns its address."""
        ...

    def send(self, endpoint: str, to: Address, payload: bytes) -> None: ...

    def receive(self, timeout: float) -> list[tuple[str, Address, bytes]]:
        """Returns what has come, as (endpoint, sender, payload). Waits for the first, at most `timeout` seconds."""
        ...

    def close_endpoints(self) -> None: ...

    def close(self) -> None: ...


class SocketLink:
    """A link of UDP sockets of this host. Each endpoint has a loopback address of its own."""

    def __init__(self) -> None:
        self._sockets: dict[str, socket.socket] = {}
        self._selector = selectors.DefaultSelector()

    def open(self, endpoint: str) -> Address:
        number = len(self._sockets)
        sock = socket.socket(type=socket.SOCK_DGRAM)
        sock.bind((f"127.1.{number // 250}.{number % 250 + 1}", 0))
        sock.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DO)
        sock.setblocking(False)
        self._sockets[endpoint] = sock
        self._selector.register(sock, selectors.EVENT_READ, endpoint)
        return sock.getsockname()

    def send(self, endpoint: str, to: Address, payload: bytes) -> None:
        self._sockets[endpoint].sendto(payload, to)

    def receive(self, timeout: float) -> list[tuple[str, Address, bytes]]:
        came = []
        for key, _ in self._selector.select(timeout):
            sock = self._sockets[key.data]
            while True:
                try:
                    payload, sender = sock.recvfrom(65536)
                except BlockingIOError:
                    break
                came.append((key.data, sender, payload))
        return came

    def close_endpoints(self) -> None:
        for sock in self._sockets.values():
            self._selector.unregister(sock)
            sock.close()
        self._sockets = {}

    def close(self) -> None:
        self.close_endpoints()
        self._selector.close()
