"""Encodes and decodes RoCEv2 packets of RDMA writes, from behind the UDP header.

It follows docs/rdma.md and the headers in the InfiniBand specification.
"""

from __future__ import annotations

import dataclasses
import socket
import struct
import zlib

from conformance import datagram, narrow
from conformance.rdma_specification import BEGINS, PLACES, PSNS, largest_message
from conformance.vector import Job, Packet, Value

PORT = 4791
OPCODES = {
    "write_first": 0x26,
    "write_middle": 0x27,
    "write_last": 0x28,
    "write_last_imm": 0x29,
    "write_only": 0x2A,
    "write_only_imm": 0x2B,
}
PARTITION = 0xFFFF
BTH, RETH, IMMEDIATE = struct.Struct(">BBHII"), struct.Struct(">QII"), struct.Struct(">I")


@dataclasses.dataclass(frozen=True)
class Memory:
    """The layout of a worker's memory for results: docs/rdma.md, the column "switch to worker"."""

    job: Job

    NOTICE, LAST_NOTICE = 256, 1024  # bytes

    @property
    def stride(self) -> int:
        return 1 << (largest_message(self.job) - 1).bit_length()

    def place(self, name: str) -> int:
        """Returns the offset of `SLOT.TURN`, `notice.SLOT` or `last_notice`, in bytes."""
        notices = self.job.slots * PLACES * self.stride
        if name == "last_notice":
            return notices + self.job.slots * self.NOTICE
        kind, _, number = name.partition(".")
        if kind == "notice":
            return notices + int(number) * self.NOTICE
        return (int(kind) * PLACES + int(number)) * self.stride

    def name_of(self, offset: int) -> str:
        names = [f"{slot}.{turn}" for slot in range(self.job.slots) for turn in range(PLACES)]
        names += [f"notice.{slot}" for slot in range(self.job.slots)] + ["last_notice"]
        return next((name for name in names if self.place(name) == offset), f"{offset:#x}")


@dataclasses.dataclass(frozen=True)
class End:
    """One side's queue pairs, as `QueuePairs` in control.proto describes them."""

    address: str
    udp_port: int
    qpns: tuple[int, ...]
    psn: int
    rkey: int
    memory: int


def encode(packet: Packet, switch: End) -> bytes:
    """Encodes a packet to the switch, without the ICRC."""
    fields = packet.fields
    queue = fields["queue"]
    qpn = switch.qpns[queue if isinstance(queue, int) else -1] if queue != "unknown" else 1
    head = BTH.pack(OPCODES[packet.kind], 0, PARTITION, qpn, fields["psn"])
    if packet.kind in BEGINS:
        key = switch.rkey if fields["key"] == fields["job"] else switch.rkey ^ 1
        address = fields["epoch"] << 32 | fields["slot"] << 16 | fields["count"] << 8
        address |= narrow.FORMATS[narrow.format_of(packet)]
        head += RETH.pack(address, key, fields["length"])
    if packet.kind.endswith("imm"):
        head += IMMEDIATE.pack(fields["immediate"])
    words = [*narrow.raw(packet), *fields.get("check", ())]
    return head + struct.pack(f">{len(words)}i", *words) + bytes(fields["exponents"])


def decode(
    packet: bytes, worker: End, switch: End, memory: Memory, names: datagram.Names, passes: dict[str, Packet]
) -> Packet:
    """Returns the packet that a `recv` line would describe for these bytes from the switch, which end with the ICRC.
    `passes` has what the worker has sent last, by the place to which the result is written. The packets of jobs with
    narrow words do not say how their words lie.

    Raises:
      ValueError: if the switch may not send this packet to this worker.
    """
    opcode, flags, _, qpn, psn = BTH.unpack_from(packet)
    kind = next((name for name, code in OPCODES.items() if code == opcode), "")
    if not kind or qpn not in worker.qpns:
        raise ValueError(f"opcode {opcode:#x} for queue pair {qpn:#x}")
    qpn, psn = qpn % 2**24, psn % 2**24  # the bits above belong to other fields
    at, end = BTH.size, len(packet) - 4 - (flags >> 4 & 3)
    index = worker.qpns.index(qpn)
    notices = index == memory.job.slots
    fields: dict[str, Value] = {
        "queue": "notices" if notices else index,
        "psn": (psn - switch.psn) % PSNS,
    }
    if kind in BEGINS:
        address, rkey, length = RETH.unpack_from(packet, at)
        at += RETH.size
        if rkey != worker.rkey:
            raise ValueError(f"rkey {rkey:#x}")
        fields["place"] = memory.name_of(address - worker.memory)
        if not notices:
            fields["length"] = length
    if kind.endswith("imm"):
        fields["immediate"] = IMMEDIATE.unpack_from(packet, at)[0]
        at += IMMEDIATE.size
    payload = packet[at:end]
    if notices:
        notice = datagram.decode(payload, names)
        return Packet(kind, {**fields, "says": notice.kind, **notice.fields})
    if memory.job.narrow:
        place = str(fields.get("place"))
        if place not in passes:
            raise ValueError(f"a result at {place}")
        return Packet(kind, {**fields, **_body(payload, passes[place])})
    words = len(payload) // (4 * memory.job.block) * memory.job.block
    fields["words"] = struct.unpack_from(f">{words}i", payload)
    fields["exponents"] = tuple(payload[4 * words :])
    return Packet(kind, fields)


def _body(payload: bytes, sent: Packet) -> dict[str, Value]:
    tail = max(len(payload) - -(-int(sent["count"]) // 4) * 4, 4 * narrow.CHECK_WORDS)
    words = struct.unpack_from(f">{tail // 4}i", payload)
    check = len(words) - narrow.CHECK_WORDS
    body = narrow.from_raw(narrow.format_of(sent), words[:check])
    return {**body, "check": words[check:], "exponents": tuple(payload[tail:])}


def icrc(source: tuple[str, int], destination: tuple[str, int], covered: bytes, identification: int = 0) -> bytes:
    """Returns the invariant CRC of a packet that must not be fragmented, as four bytes of the wire."""
    size = 8 + len(covered) + 4
    ip = struct.pack(">BBHHHBBH", 0x45, 0xFF, 20 + size, identification, 0x4000, 0xFF, 17, 0xFFFF)
    ip += socket.inet_aton(source[0]) + socket.inet_aton(destination[0])
    udp = struct.pack(">HHHH", source[1], destination[1], size, 0xFFFF)
    masked = covered[:4] + b"\xff" + covered[5:]
    return struct.pack("<I", zlib.crc32(bytes([0xFF] * 8) + ip + udp + masked))


def check_icrc(source: tuple[str, int], destination: tuple[str, int], packet: bytes) -> None:
    """Raises ValueError if a packet's ICRC is wrong.

    The ICRC covers the IP identification, which a socket does not see. It is 0, unless the sender lets the kernel
    segment its messages: the kernel then numbers the packets from 0. So this tries 64 numbers.
    """
    for identification in range(64):
        if packet[-4:] == icrc(source, destination, packet[:-4], identification):
            return
    raise ValueError("wrong ICRC")
