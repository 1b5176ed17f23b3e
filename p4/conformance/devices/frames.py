"""Encodes and decodes UDP in IPv4 in Ethernet."""

from __future__ import annotations

import dataclasses
import socket
import struct

from conformance.devices.links import Address

IP, ARP, VLAN = 0x0800, 0x0806, 0x8100
_UDP, _HEADERS = 17, 42  # bytes of all three


@dataclasses.dataclass(frozen=True)
class Frame:
    source_mac: bytes
    source: Address
    destination_mac: bytes
    destination: Address
    payload: bytes


def to_bytes(frame: Frame) -> bytes:
    """Encodes a frame, without a UDP checksum."""
    (source, port), (destination, to_port) = frame.source, frame.destination
    udp = struct.pack(">HHHH", port, to_port, 8 + len(frame.payload), 0)
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 28 + len(frame.payload), 0, 0x4000, 64, _UDP, 0)
    ip += socket.inet_aton(source) + socket.inet_aton(destination)
    ip = ip[:10] + struct.pack(">H", ones_complement(ip)) + ip[12:]
    ethernet = frame.destination_mac + frame.source_mac + struct.pack(">H", IP)
    return ethernet + ip + udp + frame.payload


def from_bytes(data: bytes) -> Frame | None:
    """Decodes a frame. Returns None if it is not UDP."""
    kind = data[12:14] == struct.pack(">H", IP)
    if not kind or len(data) < _HEADERS or data[14] != 0x45 or data[23] != _UDP:
        return None
    port, to_port, length = struct.unpack_from(">HHH", data, 34)
    source, destination = socket.inet_ntoa(data[26:30]), socket.inet_ntoa(data[30:34])
    payload = data[_HEADERS : 34 + length]  # short frames are padded
    return Frame(data[6:12], (source, port), data[:6], (destination, to_port), payload)


def with_tag(data: bytes, tag: int) -> bytes:
    """Returns a frame with an 802.1Q tag, whose 16 bits (TCI) are `tag`."""
    return data[:12] + struct.pack(">HH", VLAN, tag) + data[12:]


def without_tag(data: bytes) -> tuple[int | None, bytes]:
    """Returns the frame's tag, or None if it has none, and the frame without it."""
    if data[12:14] != struct.pack(">H", VLAN):
        return None, data
    return int.from_bytes(data[14:16]), data[:12] + data[16:]


def ones_complement(header: bytes) -> int:
    """Returns the checksum of an IPv4 header, or 0 if the header already has the right one."""
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF
