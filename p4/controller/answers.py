"""Answers ARP requests and pings for the switch's address (RFC 826, RFC 792)."""

from __future__ import annotations

import struct

_ETHERNET, _IPV4, _ICMP = struct.Struct(">6s6sH"), struct.Struct(">BBHHHBBH4s4s"), struct.Struct(">BBH")
_ARP = struct.Struct(">HHBBH6s4s6s4s")
_ARP_TYPE, _IPV4_TYPE, _VLAN_TYPE = 0x0806, 0x0800, 0x8100
_TAG = slice(12, 16)  # where a tag is, if the frame has one
_OF_ETHERNET_AND_IPV4 = (1, _IPV4_TYPE, 6, 4)
_REQUEST, _REPLY = 1, 2
_PLAIN_IPV4, _ICMP_PROTOCOL, _TTL = 0x45, 1, 64
_FRAGMENT = 0x3FFF  # of flags and offset: more fragments, and the offset
_ECHO, _ECHO_REPLY = 8, 0
_SHORTEST = 60  # bytes of a frame


def answer(frame: bytes, mac: bytes, address: bytes) -> bytes | None:
    """Returns the answer to a frame, or None if it is no correct ARP request or ping for the switch. The answer to a
    frame with an 802.1Q tag has the same tag.

    Args:
      frame: from Ethernet's destination on, without the check sequence. It may be padded.
      mac: the switch's MAC address, 6 bytes.
      address: its IPv4 address, 4 bytes.
    """
    if frame[12:14] == _VLAN_TYPE.to_bytes(2):
        tag, start, end = frame[_TAG], frame[: _TAG.start], frame[_TAG.stop :]
        plain = None if len(tag) < 4 or end[:2] == tag[:2] else answer(start + end, mac, address)
        return None if plain is None else plain[: _TAG.start] + tag + plain[_TAG.start :]
    if len(frame) < _ETHERNET.size:
        return None
    destination, source, kind = _ETHERNET.unpack_from(frame)
    if source[0] & 1 or source == mac:  # a frame that a group sends, or the switch itself
        return None
    payload = frame[_ETHERNET.size :]
    if kind == _ARP_TYPE and destination in (mac, b"\xff" * 6):
        reply = _arp_reply(payload, mac, address)
    elif kind == _IPV4_TYPE and destination == mac:
        reply = _echo_reply(payload, address)
    else:
        return None
    return None if reply is None else (_ETHERNET.pack(source, mac, kind) + reply).ljust(_SHORTEST, b"\0")


def _arp_reply(payload: bytes, mac: bytes, address: bytes) -> bytes | None:
    if len(payload) < _ARP.size:
        return None
    *kind, operation, sender_mac, sender, _, target = _ARP.unpack_from(payload)
    if (tuple(kind), operation, target) != (_OF_ETHERNET_AND_IPV4, _REQUEST, address):
        return None
    return _ARP.pack(*_OF_ETHERNET_AND_IPV4, _REPLY, mac, address, sender_mac, sender)


def _echo_reply(payload: bytes, address: bytes) -> bytes | None:
    if len(payload) < _IPV4.size:
        return None
    first, service, length, _, fragment, _, protocol, _, source, destination = _IPV4.unpack_from(payload)
    header, message = payload[: _IPV4.size], payload[_IPV4.size : length]
    if (first, protocol, destination) != (_PLAIN_IPV4, _ICMP_PROTOCOL, address) or fragment & _FRAGMENT:
        return None
    if length > len(payload) or len(message) < 2 * _ICMP.size or source[0] >= 224 or not any(source):
        return None
    if message[0:2] != bytes([_ECHO, 0]) or _checksum(header) or _checksum(message):
        return None
    rest = message[_ICMP.size :]
    summed = _checksum(_ICMP.pack(_ECHO_REPLY, 0, 0) + rest)
    fields = (_PLAIN_IPV4, service, length, 0, 0, _TTL, _ICMP_PROTOCOL)
    checked = _checksum(_IPV4.pack(*fields, 0, destination, source))
    return _IPV4.pack(*fields, checked, destination, source) + _ICMP.pack(_ECHO_REPLY, 0, summed) + rest


def _checksum(data: bytes) -> int:
    """Returns the checksum of RFC 1071, or 0 if the data has the right one in it."""
    total = sum(struct.unpack(f">{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
