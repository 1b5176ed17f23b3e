"""Sends raw frames on network interfaces: to a chip's model, BMv2, a real switch, or a software switch behind a veth
pair.

Endpoints have Ethernet and IP addresses of their own, which the host does not know. The link answers ARP for them.
Endpoint n lives on interface n modulo the number of interfaces.
"""

from __future__ import annotations

import ipaddress
import selectors
import socket
import struct
import time

from conformance.devices import frames
from conformance.devices.links import Address

_REQUEST, _REPLY = 1, 2
_BROADCAST = b"\xff" * 6
_ARP_PACKET = struct.Struct(">HHBBH6s4s6s4s")
_ARP_TIMEOUT = 10.0
_PORT = 40000
_RECEIVE_BUFFER = 1 << 22


class InterfaceLink:
    """A link of raw frames.

    Args:
      interfaces: names of interfaces, which must be up.
      network: the network from which the endpoints' addresses are taken.

    Raises:
      PermissionError: if the process has no CAP_NET_RAW (root has it), which raw sockets need.
    """

    def __init__(self, interfaces: list[str], network: str):
        self._network = ipaddress.ip_network(network)
        self._selector = selectors.DefaultSelector()
        self._interfaces: list[socket.socket] = []
        for name in interfaces:
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))  # ETH_P_ALL
            sock.bind((name, 0))
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            self._selector.register(sock, selectors.EVENT_READ)
            self._interfaces.append(sock)
        self._endpoints: dict[str, tuple[Address, bytes, socket.socket]] = {}
        self._by_ip: dict[bytes, str] = {}
        self._next = 0  # counts on and on: addresses are not reused, so that no late frame reaches a new endpoint
        self._neighbours: dict[bytes, bytes] = {}
        self._came: list[tuple[str, Address, bytes]] = []

    def open(self, endpoint: str) -> Address:
        number = self._next % (self._network.num_addresses - 2)
        self._next += 1
        address = (str(self._network[number + 1]), _PORT)
        mac = bytes([2, 0x4A, 0x58, 0]) + struct.pack(">H", number)  # locally administered
        sock = self._interfaces[len(self._endpoints) % len(self._interfaces)]
        self._endpoints[endpoint] = (address, mac, sock)
        self._by_ip[socket.inet_aton(address[0])] = endpoint
        return address

    def send(self, endpoint: str, to: Address, payload: bytes) -> None:
        source, mac, sock = self._endpoints[endpoint]
        neighbour = self._resolve(endpoint, socket.inet_aton(to[0]))
        sock.send(frames.to_bytes(frames.Frame(mac, source, neighbour, to, payload)))

    def receive(self, timeout: float) -> list[tuple[str, Address, bytes]]:
        deadline = time.monotonic() + timeout
        while not self._came:
            left = deadline - time.monotonic()
            self._poll(max(left, 0))
            if left <= 0:
                break
        came, self._came = self._came, []
        return came

    def close_endpoints(self) -> None:
        self._endpoints, self._by_ip = {}, {}

    def close(self) -> None:
        for sock in self._interfaces:
            sock.close()
        self._selector.close()

    def _poll(self, timeout: float) -> None:
        for key, _ in self._selector.select(timeout):
            while True:
                try:
                    frame, about = key.fileobj.recvfrom(65536)  # type: ignore[union-attr]
                except BlockingIOError:
                    break
                if about[2] != socket.PACKET_OUTGOING:
                    self._on_frame(frame, key.fileobj)  # type: ignore[arg-type]

    def _on_frame(self, data: bytes, sock: socket.socket) -> None:
        (kind,) = struct.unpack_from(">H", data, 12)
        if kind == frames.ARP and len(data) >= 14 + _ARP_PACKET.size:
            self._on_arp(data, sock)
            return
        frame = frames.from_bytes(data)
        if frame is None:
            return
        endpoint = self._by_ip.get(socket.inet_aton(frame.destination[0]))
        if endpoint is not None:
            address, mac, _ = self._endpoints[endpoint]
            if (frame.destination, frame.destination_mac) == (address, mac):
                self._came.append((endpoint, frame.source, frame.payload))

    def _on_arp(self, frame: bytes, sock: socket.socket) -> None:
        *_, operation, sender_mac, sender_ip, _, target_ip = _ARP_PACKET.unpack_from(frame, 14)
        endpoint = self._by_ip.get(target_ip)
        if operation == _REPLY:
            self._neighbours[sender_ip] = sender_mac
        elif operation == _REQUEST and endpoint is not None:
            mac = self._endpoints[endpoint][1]
            sock.send(_arp(_REPLY, mac, target_ip, sender_mac, sender_ip))

    def _resolve(self, endpoint: str, ip: bytes) -> bytes:
        (source, _), mac, sock = self._endpoints[endpoint]
        deadline = time.monotonic() + _ARP_TIMEOUT
        while ip not in self._neighbours:
            if time.monotonic() > deadline:
                raise TimeoutError(f"nobody answers ARP for {socket.inet_ntoa(ip)}")
            sock.send(_arp(_REQUEST, mac, socket.inet_aton(source), _BROADCAST, ip))
            self._poll(0.2)
        return self._neighbours[ip]


def _arp(operation: int, mac: bytes, ip: bytes, to_mac: bytes, to_ip: bytes) -> bytes:
    target = bytes(6) if operation == _REQUEST else to_mac
    packet = _ARP_PACKET.pack(1, frames.IP, 6, 4, operation, mac, ip, target, to_ip)
    return to_mac + mac + struct.pack(">H", frames.ARP) + packet
