"""Makes the bytes that a stranger sends: rdma_engine/wire/packet.h and rdma_engine/wire/roce.h in Python, unchecked."""

from __future__ import annotations

import socket
import struct
import zlib

UPDATE, RESULT, PENDING, REFUSED, ABORT = 1, 2, 3, 4, 5
_HEADER = struct.Struct(">HBBIQHHIIHBB")  # all but the checksum

WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_ONLY_IMMEDIATE = 0x26, 0x27, 0x28, 0x2B

LARGEST_PAYLOAD = 65507  # of a datagram


def update(
    job: int,
    secret: int,
    *,
    worker: int = 0,
    slot: int = 0,
    epoch: int = 0,
    fingerprint: int = 0,
    words: int = 0,
    exponents: int = 0,
    kind: int = UPDATE,
) -> bytes:
    """Returns a packet with a right checksum. `words` and `exponents` are counts; the words and exponents are zero."""
    head = _HEADER.pack(0x4A58, 1, kind, job, secret, worker, slot, epoch, fingerprint, words, exponents, 0)
    payload = bytes((exponents + 3) // 4 * 4 + 4 * words)
    return head + struct.pack(">I", zlib.crc32(payload, zlib.crc32(head))) + payload


def ip_datagram(
    source: str, source_port: int, target: str, target_port: int, payload: bytes, identification: int
) -> bytes:
    """Returns an IP packet for a raw socket, from any source. The kernel adds the IP checksum. UDP's is left out."""
    ip = struct.pack(
        ">BBHHHBBH4s4s", 0x45, 0, 0, identification, 0x4000, 64, socket.IPPROTO_UDP, 0, *_four_bytes(source, target)
    )
    return ip + struct.pack(">HHHH", source_port, target_port, 8 + len(payload), 0) + payload


def rdma_write(
    opcode: int,
    qpn: int,
    psn: int,
    payload: bytes,
    *,
    address: int = 0,
    rkey: int = 0,
    length: int = 0,
    immediate: int = 0,
) -> bytes:
    """Returns what the ICRC covers of an RDMA write's packet: all that follows the UDP header, but not the ICRC."""
    pad = -len(payload) % 4
    packet = struct.pack(">BBHII", opcode, pad << 4, 0xFFFF, qpn & 0xFFFFFF, psn & 0xFFFFFF)
    if opcode in (WRITE_FIRST, WRITE_ONLY_IMMEDIATE):
        packet += struct.pack(">QII", address, rkey, length)
    if opcode == WRITE_ONLY_IMMEDIATE:
        packet += struct.pack(">I", immediate)
    return packet + payload + bytes(pad)


def pass_address(epoch: int, slot: int, exponents: int) -> int:
    return epoch << 32 | slot << 16 | exponents << 8


def icrc(source: str, source_port: int, target: str, target_port: int, identification: int, covered: bytes) -> bytes:
    """Returns the right ICRC for an IP packet with this identification and "do not fragment"."""
    size = len(covered) + 4
    link, ones = b"\xff" * 8, b"\xff"
    addresses = _four_bytes(source, target)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0xFF, 28 + size, identification, 0x4000, 0xFF, 17, 0xFFFF, *addresses)
    udp = struct.pack(">HHHH", source_port, target_port, 8 + size, 0xFFFF)
    return struct.pack("<I", zlib.crc32(link + ip + udp + covered[:4] + ones + covered[5:]))


def _four_bytes(*addresses: str) -> list[bytes]:
    return [socket.inet_aton(address) for address in addresses]
