"""The interface between the controller and a chip: writes to tables, in the terms of BfRt, and digests."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol


@dataclasses.dataclass(frozen=True)
class Ternary:
    value: int
    mask: int

    def __str__(self) -> str:
        return f"{self.value:#x}&{self.mask:#x}" if self.mask else "*"


@dataclasses.dataclass(frozen=True)
class Range:
    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low}..{self.high}"


Match = int | Ternary | Range  # an int matches exactly
Value = int | str | bool | tuple[int, ...] | tuple[bool, ...]


@dataclasses.dataclass(frozen=True)
class Entry:
    """A row of a table. In BfRt, registers and counters are tables, too, without actions."""

    table: str
    key: Mapping[str, Match]
    data: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    action: str = ""

    def __str__(self) -> str:
        key = " ".join(f"{name}={match}" for name, match in self.key.items())
        data = ", ".join(f"{name}={value}" for name, value in self.data.items())
        return f"{self.table} {key}" + (f" -> {self.action}({data})" if self.action or data else "")


@dataclasses.dataclass(frozen=True)
class Digest:
    """A message of the program to the controller, with the name of the P4 digest."""

    name: str
    fields: Mapping[str, int]


class Tables(Protocol):
    """Access to a chip's tables.

    Every method concerns one table, and raises SystemCallError if the chip's driver refuses.
    """

    def insert(self, entries: Sequence[Entry]) -> None: ...

    def modify(self, entries: Sequence[Entry]) -> None:
        """Changes existing entries. Registers and counters always exist."""
        ...

    def delete(self, entries: Sequence[Entry]) -> None:
        """Deletes entries. Their data does not matter. One that does not exist is no error: after a write that failed,
        nobody knows which entries the chip has."""
        ...

    def clear(self, table: str) -> None:
        """Deletes all entries of a match table, a value set or a table of multicast."""
        ...

    def entries(self, table: str, fields: Sequence[str]) -> list[Entry]:
        """Returns all entries of a table whose keys are exact, with these fields of their data."""
        ...

    def read(self, entries: Sequence[Entry]) -> list[dict[str, int]]:
        """Returns the fields of registers or counters. A register's are those of the pool's pipe."""
        ...

    def next_digest(self, timeout: float) -> Digest | None:
        """Waits for a digest, at most `timeout` seconds. Returns None if none came."""
        ...

    def close(self) -> None: ...
