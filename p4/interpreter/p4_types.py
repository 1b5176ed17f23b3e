"""The types of P4_16 that the interpreter has."""

from __future__ import annotations

import dataclasses
import functools


@dataclasses.dataclass(frozen=True)
class Bits:
    width: int

    @functools.cached_property
    def mask(self) -> int:
        return (1 << self.width) - 1

    def __str__(self) -> str:
        return f"bit<{self.width}>"


@dataclasses.dataclass(frozen=True)
class Boolean:
    width = mask = 1

    def __str__(self) -> str:
        return "bool"


@dataclasses.dataclass(frozen=True)
class Integer:
    """The type of a number in the text that has no width yet."""

    def __str__(self) -> str:
        return "int"


@dataclasses.dataclass(frozen=True)
class Nothing:
    def __str__(self) -> str:
        return "void"


@dataclasses.dataclass
class Record:
    """A struct or a header."""

    name: str
    fields: dict[str, Type]
    is_header: bool

    @functools.cached_property
    def width(self) -> int:
        """A header's width in bits."""
        return sum(type.width for type in self.fields.values() if isinstance(type, Bits))

    def __str__(self) -> str:
        return self.name


@dataclasses.dataclass(frozen=True)
class Extern:
    """A type of the chip: Register, Counter, packet_in and so on."""

    name: str
    arguments: tuple[Type, ...]

    def __str__(self) -> str:
        return self.name


Type = Bits | Boolean | Integer | Nothing | Record | Extern
BOOLEAN, INTEGER, NOTHING = Boolean(), Integer(), Nothing()
