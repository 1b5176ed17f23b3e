"""One way of a packet through a parser, a control and a deparser."""

from __future__ import annotations

import collections
import dataclasses

from interpreter.errors import UndefinedError
from interpreter.packet import Cursor, Packet
from interpreter.values import Value


class Memory:
    """What a pipe keeps from packet to packet. A register's cells are dicts by field."""

    def __init__(self) -> None:
        self.registers: dict[str, dict[int, dict[str, Value]]] = collections.defaultdict(dict)
        # [packets, bytes]
        self.counters: dict[tuple[str, int], list[int]] = collections.defaultdict(lambda: [0, 0])


@dataclasses.dataclass(frozen=True)
class Digest:
    name: str
    fields: dict[str, int]


class Pass:
    """`values` has every field and variable by its path, `valid` the headers that there are."""

    def __init__(self, memory: Memory, packet: Packet):
        self.memory = memory
        self.length = len(packet.data)
        self.cursor = Cursor(packet)
        self.values: dict[str, Value] = {}
        self.valid: set[str] = set()
        self.emitted: list[Packet] = []
        self.digests: list[Digest] = []
        self._used: set[str] = set()

    def use(self, what: str) -> None:
        """A packet meets every table and every register once."""
        if what in self._used:
            raise UndefinedError(f"meets {what} for a second time in one pass")
        self._used.add(what)
