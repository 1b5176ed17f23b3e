"""The headers of jaxina's packets as scapy's layers: rdma_engine/wire/packet.h, rdma_engine/wire/roce.h."""

import struct

from ptf.packet import IP, UDP, Ether
from scapy.fields import ByteField, IntField, LongField, ShortField, X3BytesField, XByteField, XShortField
from scapy.packet import Packet, Raw, bind_layers

UPDATE, RESULT = 1, 2  # kinds
ALL_WORKERS = 0xFFFF
DATAGRAM_PORT, ROCE_PORT = 51001, 4791
WRITE_ONLY_IMMEDIATE = 0x2B  # RoCE's opcode of a write of one packet


class Jaxina(Packet):
    name = "jaxina"
    fields_desc = [  # noqa: RUF012  scapy's way
        XShortField("magic", 0x4A58),
        ByteField("version", 1),
        ByteField("kind", UPDATE),
        IntField("job", 0),
        LongField("secret", 0),
        ShortField("worker", 0),
        ShortField("slot", 0),
        IntField("epoch", 0),
        IntField("fingerprint", 0),
        ShortField("words", 0),
        ByteField("exponents", 0),
        ByteField("code", 0),
        IntField("crc32", 0),  # a Tofino neither checks nor writes it
    ]


class Bth(Packet):
    """RoCEv2's base transport header."""

    name = "BTH"
    fields_desc = [  # noqa: RUF012
        XByteField("opcode", WRITE_ONLY_IMMEDIATE),
        XByteField("flags", 0),
        XShortField("partition", 0xFFFF),
        XByteField("congestion", 0),
        X3BytesField("qpn", 0),
        XByteField("acknowledge", 0),
        X3BytesField("psn", 0),
    ]


class Reth(Packet):
    """RoCEv2's RDMA header, with the immediate behind it. In a write to the switch, the address names the pass."""

    name = "RETH"
    fields_desc = [  # noqa: RUF012
        LongField("address", 0),
        IntField("rkey", 0),
        IntField("length", 0),
        IntField("immediate", 0),
    ]


bind_layers(UDP, Jaxina, dport=DATAGRAM_PORT)
bind_layers(UDP, Bth, dport=ROCE_PORT)
bind_layers(Bth, Reth)


def words(numbers):
    """Returns the bytes of words of 32 bits."""
    return struct.pack(f">{len(numbers)}I", *[number % 2**32 for number in numbers])


def exponent(value):
    """Returns the bytes of one exponent, padded."""
    return bytes([value, 0, 0, 0])


def udp(source, to, port, to_port):
    """Returns the headers of a datagram between two stations: (MAC address, IPv4 address). It has no UDP checksum."""
    (mac, ip), (to_mac, to_ip) = source, to
    return Ether(dst=to_mac, src=mac) / IP(src=ip, dst=to_ip, ttl=64, id=0) / UDP(sport=port, dport=to_port, chksum=0)


def datagram(headers, fields, summed=(), largest=None):
    """Returns a datagram of jaxina's with these words, and with one exponent or none."""
    body = (b"" if largest is None else exponent(largest)) + words(summed)
    counts = {"words": len(summed), "exponents": 0 if largest is None else 1}
    return headers / Jaxina(**fields, **counts) / Raw(body)
