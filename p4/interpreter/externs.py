"""The chip's externs, apart from registers: packets, counters, digests and checksums."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from lark import Tree

from interpreter.errors import ProgramError, UndefinedError
from interpreter.expressions import Code, Expressions, listed
from interpreter.p4_types import NOTHING, Bits, Record, Type
from interpreter.packet import Layout, Packet
from interpreter.passing import Digest, Pass
from interpreter.values import Value, make


class PacketIn:
    def call(self, method: str, arguments: list[Tree], caller: Expressions) -> Code:
        (argument,) = arguments
        if method == "extract":
            return caller.calling(NOTHING, _extract(argument, caller))
        if method == "advance":
            bits = caller.constant(argument)
            return caller.made(NOTHING, f"p.cursor.advance({bits})")
        if method == "lookahead":
            type = caller.type(argument)
            assert isinstance(type, Bits)
            return caller.calling(type, lambda p: _number(p.cursor.look(type.width)))
        raise caller.error(argument, f"no such method: {method}")


def _extract(argument: Tree, caller: Expressions) -> Callable[[Pass], None]:
    place = caller.written(argument)
    header, path = place.type, place.path
    assert isinstance(header, Record) and header.is_header
    layout, width = Layout(header, path), header.width

    def extract(p: Pass) -> None:
        if path in p.valid:
            raise UndefinedError(f"extracts {path} twice")
        p.values.update(layout.unpack(p.cursor.advance(width)))
        p.valid.add(path)

    return extract


class PacketOut:
    def call(self, method: str, arguments: list[Tree], caller: Expressions) -> Code:
        (argument,) = arguments
        place = caller.place(argument)
        if method != "emit" or place is None or not isinstance(place.type, Record):
            raise caller.error(argument, "cannot be emitted")
        headers = {place.path: place.type}
        if not place.type.is_header:
            headers = {f"{place.path}.{name}": type for name, type in place.type.fields.items()}
        layouts = [(path, Layout(header, path)) for path, header in headers.items()]

        def emit(p: Pass) -> None:
            p.emitted += [layout.pack(p.values) for path, layout in layouts if path in p.valid]

        return caller.calling(NOTHING, emit)


@dataclasses.dataclass
class Counter:
    name: str
    size: int

    def call(self, method: str, arguments: list[Tree], caller: Expressions) -> Code:
        (argument,) = arguments
        index = caller.compile(argument).run

        def count(p: Pass) -> None:
            at = int(index(p).__index__())
            p.use(self.name)
            counted = p.memory.counters[self.name, at]
            counted[0] += 1
            counted[1] += p.length

        return caller.calling(NOTHING, count)


@dataclasses.dataclass
class DigestChannel:
    name: str
    type: Record

    def call(self, method: str, arguments: list[Tree], caller: Expressions) -> Code:
        (argument,) = arguments
        fields = zip(_numbers(argument), self.type.fields.items(), strict=True)
        codes = {name: caller.fitted(tree, type).run for tree, (name, type) in fields}

        def send(p: Pass) -> None:
            p.use(self.name)
            values = {name: run(p).__index__() for name, run in codes.items()}
            p.digests.append(Digest(self.name, values))

        return caller.calling(NOTHING, send)


class Checksum:
    """`update` returns the ones' complement checksum of a list of fields."""

    def call(self, method: str, arguments: list[Tree], caller: Expressions) -> Code:
        (argument,) = arguments
        codes = [caller.compile(tree) for tree in _numbers(argument)]

        def update(p: Pass) -> Value:
            number = bits = 0
            for code in codes:
                assert isinstance(code.type, Bits)
                number = number << code.type.width | code.run(p).__index__()
                bits += code.type.width
            assert bits % 16 == 0
            total = sum(number >> at & 0xFFFF for at in range(0, bits, 16))
            while total >> 16:
                total = (total & 0xFFFF) + (total >> 16)
            return ~total & 0xFFFF

        return caller.calling(Bits(16), update)


class Hash:
    """`get` returns the lowest bits of the CRC of a list of fields, which fill whole bytes.

    It knows TNA's CRC16 only: the polynomial 0x8005, reflected.
    """

    def __init__(self, algorithm: Tree, type: Type):
        if not isinstance(type, Bits) or [str(part) for part in algorithm.children[1:]] != ["CRC16"]:
            raise ProgramError("no such hash is understood")
        self._type = type

    def call(self, method: str, arguments: list[Tree], caller: Expressions) -> Code:
        (argument,) = arguments
        codes = [caller.compile(tree) for tree in _numbers(argument)]
        if method != "get":
            raise caller.error(argument, f"no such method: {method}")

        def get(p: Pass) -> Value:
            crc = 0
            for code in codes:
                assert isinstance(code.type, Bits)
                for byte in code.run(p).__index__().to_bytes(code.type.width // 8):
                    crc ^= byte
                    for _ in range(8):
                        crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
            return crc & self._type.mask

        return caller.calling(self._type, get)


def _number(packet: Packet) -> Value:
    return make(int.from_bytes(packet.data), int.from_bytes(packet.unknown), "the packet")


def _numbers(tree: Tree) -> list[Tree]:
    """Returns the members of `{a, b}`."""
    return listed(tree.children[0])
