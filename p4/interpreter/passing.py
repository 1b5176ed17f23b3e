"""A pass: one packet's way through a parser, a control and a deparser, and the memory that it meets."""

from __future__ import annotations

import collections
import dataclasses

from interpreter.errors import UndefinedError
from interpreter.packet import Cursor, Packet
from interpreter.values import Value


class Memory:
    """What a pipe keeps from packet to packet. A register's cell is a dict from field to value."""

    def __init__(self) -> None:
        self.registers: dict[str, dict[int, dict[str, Value]]] = collections.defaultdict(dict)
        # [packets, bytes]
        self.counters: dict[tuple[str, int], list[int]] = collections.defaultdict(lambda: [0, 0])


@dataclasses.dataclass(frozen=True)
class Digest:
    name: str
    fields: dict[str, int]


class Pass:
    """The state of one pass.

    Attributes:
      values: every field and variable, by its path.
      valid: the paths of the valid headers.
      used: the tables and registers that the packet has met.
    """

    def __init__(self, memory: Memory, packet: Packet):
        self.memory = memory
        self.length = len(packet.data)
        self.cursor = Cursor(packet)
        self.values: dict[str, Value] = {}
        self.valid: set[str] = set()
        self.emitted: list[Packet] = []
        self.digests: list[Digest] = []
        self.used: set[str] = set()

    def use(self, what: str) -> None:
        """Notes that the packet meets a table or a register. Raises UndefinedError the second time: the chip cannot."""
        if what in self.used:
            raise UndefinedError(f"meets {what} for a second time in one pass")
        self.used.add(what)
