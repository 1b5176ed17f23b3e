"""A packet's bytes inside the chip, where some bits may be unset."""

from __future__ import annotations

import dataclasses

from interpreter.errors import RejectedError, UndefinedError
from interpreter.p4_types import Bits, Record
from interpreter.values import Value, make, parts


@dataclasses.dataclass(frozen=True)
class Packet:
    """Bytes with unset bits: `unknown` has a 1 for every bit that nothing has set. These bits are 0 in `data`."""

    data: bytes
    unknown: bytes

    @staticmethod
    def known(data: bytes) -> Packet:
        return Packet(data, bytes(len(data)))

    def __add__(self, other: Packet) -> Packet:
        return Packet(self.data + other.data, self.unknown + other.unknown)

    def leaves(self) -> bytes:
        """Returns the bytes that a port sends. Raises UndefinedError if a bit of them is not set."""
        for at, mask in enumerate(self.unknown):
            if mask:
                raise UndefinedError(f"sends byte {at}, bits of which nothing has set")
        return self.data


class Cursor:
    """A parser's place in a packet."""

    def __init__(self, packet: Packet):
        self._packet = packet
        self._at = 0  # bytes

    def look(self, bits: int) -> tuple[int, int]:
        """Returns the next `bits` bits, and a mask of those that are not set."""
        if bits % 8:
            raise ValueError(f"{bits} bits are no bytes")
        end = self._at + bits // 8
        if end > len(self._packet.data):
            raise RejectedError(f"{len(self._packet.data)} bytes, of {end}")
        part = slice(self._at, end)
        return int.from_bytes(self._packet.data[part]), int.from_bytes(self._packet.unknown[part])

    def advance(self, bits: int) -> None:
        self.look(bits)
        self._at += bits // 8

    def rest(self) -> Packet:
        return Packet(self._packet.data[self._at :], self._packet.unknown[self._at :])


def unpack(header: Record, path: str, value: int, unknown: int) -> dict[str, Value]:
    """Splits a header's bits into its fields, by their paths."""
    left = header.width
    fields: dict[str, Value] = {}
    for name, type in header.fields.items():
        assert isinstance(type, Bits)
        left -= type.width
        mask = unknown >> left & type.mask
        fields[f"{path}.{name}"] = make(value >> left & type.mask, mask, f"{path}.{name}")
    return fields


def pack(header: Record, path: str, values: dict[str, Value]) -> Packet:
    data = unknown = 0
    for name, type in header.fields.items():
        assert isinstance(type, Bits)
        value, mask = parts(values.get(f"{path}.{name}", make(0, type.mask, name)))
        data = data << type.width | value
        unknown = unknown << type.width | mask
    size = header.width // 8
    return Packet(data.to_bytes(size), unknown.to_bytes(size))
