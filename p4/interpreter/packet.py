"""A packet's bytes inside the chip, where some bits may be unset."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from interpreter.errors import RejectedError, UndefinedError
from interpreter.p4_types import Bits, Record
from interpreter.values import Unknown, Value, make, parts

_CODES = {8: "B", 16: "H", 32: "I", 64: "Q"}


class Packet(NamedTuple):
    """Bytes with unset bits: `unknown` has a 1 for every bit that nothing has set. These bits are 0 in `data`."""

    data: bytes
    unknown: bytes

    @staticmethod
    def known(data: bytes) -> Packet:
        return Packet(data, bytes(len(data)))

    @staticmethod
    def joined(parts: Iterable[Packet]) -> Packet:
        found = list(parts)
        return Packet(b"".join([part.data for part in found]), b"".join([part.unknown for part in found]))

    def leaves(self) -> bytes:
        """Returns the bytes that a port sends. Raises UndefinedError if a bit of them is not set."""
        if any(self.unknown):
            at = next(at for at, mask in enumerate(self.unknown) if mask)
            raise UndefinedError(f"sends byte {at}, bits of which nothing has set")
        return self.data


class Cursor:
    """A parser's place in a packet."""

    def __init__(self, packet: Packet):
        self._packet = packet
        self._at = 0  # bytes

    def look(self, bits: int) -> Packet:
        """Returns the next `bits` bits, which must be whole bytes."""
        if bits % 8:
            raise ValueError(f"{bits} bits are no bytes")
        end = self._at + bits // 8
        if end > len(self._packet.data):
            raise RejectedError(f"{len(self._packet.data)} bytes, of {end}")
        part = slice(self._at, end)
        return Packet(self._packet.data[part], self._packet.unknown[part])

    def advance(self, bits: int) -> Packet:
        """Returns the next `bits` bits, and goes on behind them."""
        passed = self.look(bits)
        self._at += bits // 8
        return passed

    def rest(self) -> Packet:
        return Packet(self._packet.data[self._at :], self._packet.unknown[self._at :])


class Layout:
    """How the fields of a header lie in its bytes.

    Args:
      header: the header's type.
      path: the header's path, with which the paths of its fields begin.
    """

    def __init__(self, header: Record, path: str):
        self._known = bytes(header.width // 8)
        self._fields: list[tuple[str, int, int]] = []  # path, lowest bit, mask
        low, codes = header.width, ""
        for name, type in header.fields.items():
            assert isinstance(type, Bits)
            low -= type.width
            self._fields.append((f"{path}.{name}", low, type.mask))
            codes += _CODES.get(type.width, "?")
        self._paths = [field[0] for field in self._fields]
        # For headers whose fields are all numbers of whole bytes. It makes the interpreter 1.5 times as fast.
        self._struct = None if "?" in codes else struct.Struct(f">{codes}")

    def unpack(self, packet: Packet) -> dict[str, Value]:
        """Splits a header's bytes into its fields, by their paths."""
        if packet.unknown == self._known and self._struct:
            return dict(zip(self._paths, self._struct.unpack(packet.data), strict=True))
        value, unknown = int.from_bytes(packet.data), int.from_bytes(packet.unknown)
        if not unknown:
            return {path: value >> low & mask for path, low, mask in self._fields}
        return {path: make(value >> low & mask, unknown >> low & mask, path) for path, low, mask in self._fields}

    def pack(self, values: Mapping[str, Value]) -> Packet:
        """Puts a header's fields together."""
        with contextlib.suppress(KeyError, UndefinedError):  # if some bits are not set
            if self._struct:
                return Packet(self._struct.pack(*[values[path] for path in self._paths]), self._known)
            whole = 0
            for path, low, _ in self._fields:
                whole |= values[path].__index__() << low
            return Packet(whole.to_bytes(len(self._known)), self._known)
        data = unknown = 0
        for path, low, mask in self._fields:
            value, unset = parts(values.get(path, Unknown(0, mask, path)))
            data |= value << low
            unknown |= unset << low
        size = len(self._known)
        return Packet(data.to_bytes(size), unknown.to_bytes(size))
