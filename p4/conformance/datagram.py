"""Encodes and decodes jaxina's datagrams, after the table in rdma_engine/wire/packet.h."""

from __future__ import annotations

import dataclasses
import struct
import zlib

from conformance import narrow
from conformance.specification import ALL
from conformance.vector import Packet, Value

MAGIC, VERSION = 0x4A58, 1
ALL_WORKERS = 0xFFFF
KINDS = {"update": 1, "result": 2, "pending": 3, "refused": 4, "abort": 5, "combined": 6}
FIRST_GROUP = 0xFF00  # "g1" in a vector is the number of group 1 as a sender
TRANSMISSIONS = {"first": 0, "again": 1, "uncombined": 2, "direct": 3}
MARKED = 0x80
REFUSALS = {"unknown_job": 1, "ahead": 2}
ERRORS = {"mismatch": 7, "worker_lost": 8}
#        magic version kind job secret worker slot epoch fingerprint words exponents code
HEADER = struct.Struct(">HBBIQHHIIHBB")
HEADER_SIZE = HEADER.size + 4  # with the CRC
_FORMAT_SHIFT = 14  # of the format in the field `words`


@dataclasses.dataclass
class Names:
    """The numbers that the control plane has drawn for a vector's names."""

    jobs: dict[str, int] = dataclasses.field(default_factory=dict)
    secrets: dict[str, int] = dataclasses.field(default_factory=dict)

    def name_of(self, numbers: dict[str, int], number: int) -> str:
        return next((name for name, n in numbers.items() if n == number), f"{number:#x}")


def encode(packet: Packet, names: Names) -> bytes:
    """Returns the datagram that a `send` line describes, with its damage."""
    fields = packet.fields
    words, exponents = (), ()
    if packet.kind == "pending":
        payload = sum(1 << worker for worker in fields["seen"]).to_bytes(1)  # enough for the jobs of vectors
    else:
        words, exponents = narrow.raw(packet), fields["exponents"]
        payload = bytes(exponents) + bytes(-len(exponents) % 4)
        payload += struct.pack(f">{len(words)}i", *words)
    head = HEADER.pack(
        MAGIC,
        VERSION,
        KINDS[packet.kind],
        names.jobs[str(fields["job"])],
        names.secrets[str(fields["secret"])],
        sender(fields["worker"]),
        fields["slot"],
        fields["epoch"],
        fields["fingerprint"],
        narrow.FORMATS[narrow.format_of(packet)] << _FORMAT_SHIFT | len(words),
        len(exponents),
        TRANSMISSIONS[str(fields.get("transmission", "first"))] | (MARKED if "mark" in fields else 0),
    )
    return _damaged(_sealed(head, payload), str(fields.get("damage", "")))


def sender(worker: Value) -> int:
    """Returns the number of the field `worker`."""
    if worker == ALL:
        return ALL_WORKERS
    return FIRST_GROUP + int(worker[1:]) if isinstance(worker, str) else int(worker)  # type: ignore[arg-type]


def _sender_name(number: int) -> Value:
    if number == ALL_WORKERS:
        return ALL
    return f"g{number - FIRST_GROUP}" if number >= FIRST_GROUP else number


def _sealed(head: bytes, payload: bytes) -> bytes:
    return head + struct.pack(">I", zlib.crc32(head + payload)) + payload


def _damaged(datagram: bytes, how: str) -> bytes:
    """Damages a datagram. `cut:N` keeps its first N bytes, `append:N` adds N bytes, `flip:B.b` flips bit b of byte B,
    and
    `set:B=V` sets byte B to V and gives the datagram the CRC that belongs to it."""
    what, _, value = how.partition(":")
    if what == "cut":
        return datagram[: int(value)]
    if what == "append":
        return datagram + bytes(int(value))
    changed = bytearray(datagram)
    if what == "flip":
        byte, _, bit = value.partition(".")
        changed[int(byte)] ^= 1 << int(bit)
    if what == "set":
        byte, _, number = value.partition("=")
        changed[int(byte)] = int(number, 0)
        return _sealed(bytes(changed[: HEADER.size]), bytes(changed[HEADER_SIZE:]))
    return bytes(changed)


def decoded(datagram: bytes, names: Names, checksums: bool = True) -> Packet:
    """Returns the packet, or one that says why the datagram cannot be read."""
    try:
        return decode(datagram, names, checksums)
    except ValueError as error:
        return Packet("unreadable", {"why": str(error).replace(" ", "_")})


def decode(datagram: bytes, names: Names, checksums: bool = True) -> Packet:
    """Returns the packet that a `recv` line would describe for this datagram.

    Args:
      datagram: the UDP payload.
      names: the numbers behind the vector's names.
      checksums: whether the CRC must be right. If not, it may also be 0.

    Raises:
      ValueError: if the datagram is not jaxina's, or its CRC or length is wrong.
    """
    if len(datagram) < HEADER_SIZE:
        raise ValueError(f"a datagram of {len(datagram)} bytes")
    head, payload = datagram[: HEADER.size], datagram[HEADER_SIZE:]
    (magic, version, number, job, secret, worker, slot, epoch, fingerprint, count, length, code) = HEADER.unpack(head)
    kind = next((name for name, n in KINDS.items() if n == number), "")
    if (magic, version) != (MAGIC, VERSION) or not kind:
        raise ValueError(f"not jaxina's: {datagram[:8].hex()}")
    crc = int.from_bytes(datagram[HEADER.size : HEADER_SIZE])
    if crc != zlib.crc32(head + payload) and (checksums or crc != 0):
        raise ValueError(f"a {kind} with a wrong CRC")
    fields: dict[str, Value] = {
        "job": names.name_of(names.jobs, job),
        "secret": names.name_of(names.secrets, secret),
        "worker": _sender_name(worker),
        "slot": slot,
    }
    if kind == "abort":
        return Packet(kind, {**fields, "code": _name(ERRORS, code)})
    fields |= {"epoch": epoch, "fingerprint": fingerprint}
    if kind in ("update", "combined"):
        fields["transmission"] = _name(TRANSMISSIONS, code & ~MARKED)
    if kind in ("update", "combined", "result"):
        if code & MARKED:
            fields["mark"] = 1
        padded = -(-length // 4) * 4
        form, count = list(narrow.FORMATS)[count >> _FORMAT_SHIFT], count % 2**_FORMAT_SHIFT
        if len(payload) != padded + 4 * count:
            raise ValueError(f"a {kind} of {len(payload)} bytes for {count} words, {length} exponents")
        if form != "int32":
            fields["format"] = form
        words = struct.unpack(f">{count}i", payload[padded:])
        return Packet(kind, {**fields, "exponents": tuple(payload[:length]), **narrow.from_raw(form, words)})
    if kind == "pending":
        bits = int.from_bytes(payload, "little")
        return Packet(kind, {**fields, "seen": tuple(w for w in range(bits.bit_length()) if bits >> w & 1)})
    return Packet(kind, {**fields, "code": _name(REFUSALS, code)})


def _name(codes: dict[str, int], code: int) -> str:
    return next((name for name, number in codes.items() if number == code), str(code))
