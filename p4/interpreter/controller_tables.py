"""The interpreted chip behind the interface of the project's controller, `jaxina.controller.tables.Tables`."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence

from interpreter import passing
from interpreter.chip import Chip
from interpreter.digest_queue import DigestQueue
from interpreter.errors import ProgramError
from interpreter.matching import Between, Masked, Match
from interpreter.program import Program
from interpreter.tables import Key, Table
from interpreter.values import Unknown, Value
from jaxina.controller.tables import Digest, Entry, Range, Ternary
from jaxina.controller.tables import Match as EntryMatch
from jaxina.controller.tables import Value as Data
from jaxina.errors import SystemCallError

_PIPE = "pipe."
_PRIORITY = "$MATCH_PRIORITY"
_PORTS, _PORT = "$PORT", "$DEV_PORT"
# What the chip counts of a port, by the names that BfRt has for it. No frame is damaged, and no queue has a length.
_NEVER = ""
_PORT_COUNTERS = {
    "$PORT_STAT": {
        "$FramesReceivedOK": "received",
        "$OctetsReceivedinGoodFrames": "bytes_received",
        "$FramesTransmittedOK": "sent",
        "$OctetsTransmittedwithouterror": "bytes_sent",
        "$FrameswithanyError": _NEVER,
        "$FramesReceivedoftypePAUSE": _NEVER,
        "$FramesTransmittedPause": _NEVER,
        "$PriorityPauseFrames": _NEVER,
        "$FramesTransmittedPriPause": _NEVER,
    },
    "tf1.tm.counter.ig_port": {"drop_count_packets": _NEVER},
    "tf1.tm.counter.eg_port": {
        "drop_count_packets": "dropped",
        "usage_cells": _NEVER,
        "watermark_cells": _NEVER,
    },
}
_FIELDS_OF_A_COUNTER = ("$COUNTER_SPEC_PKTS", "$COUNTER_SPEC_BYTES")


class ChipTables:
    """The tables of an interpreted chip. Writes go to all pipes, as they do through BfRt.

    Args:
      program: the program that the chip runs.
      pipe: the pool's pipe, in which registers are read.
    """

    def __init__(self, program: Program, pipe: int):
        self.chip = Chip(program, self._on_digest)
        self._inventory = program.inventory
        self._ports: dict[int, dict[str, Data]] = {}
        self._pipe = pipe
        self._digests = DigestQueue()
        # Packets and the controller's writes take turns, as a write to the chip lies before a packet or behind it.
        self._turn = threading.Lock()

    def send(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Lets a frame come in on a port, and returns what leaves the chip: (port, frame)."""
        with self._turn:
            return self.chip.send(port, frame)

    def cell(self, pipe: int, register: str, index: int) -> Mapping[str, Value]:
        """Returns the fields of a register's cell in a pipe; none if nothing has been written there."""
        return self.chip.pipes[pipe].registers[register].get(index, {})

    def set_field(self, register: str, index: int, field: str, value: int) -> None:
        """Changes one field of a cell in all pipes."""
        for memory in self.chip.pipes:
            memory.registers[register][index][field] = value

    def insert(self, entries: Sequence[Entry]) -> None:
        self._each(entries, self._insert)

    def modify(self, entries: Sequence[Entry]) -> None:
        self._each(entries, self._modify)

    def delete(self, entries: Sequence[Entry]) -> None:
        self._each(entries, self._delete)

    def clear(self, table: str) -> None:
        name = table.removeprefix(_PIPE)
        manager = self.chip.traffic_manager
        if table == "$pre.mgid":
            manager.groups.clear()
        elif table == "$pre.node":
            manager.nodes.clear()
        elif name in self._inventory.value_sets:
            self._inventory.value_sets[name].members.clear()
        else:
            self._inventory.tables[name].clear()

    def entries(self, table: str, fields: Sequence[str]) -> list[Entry]:
        assert table == _PORTS, "the controller asks for ports only"
        with self._turn:
            return [Entry(table, {_PORT: number}, {**data, "$PORT_UP": True}) for number, data in self._ports.items()]

    def read(self, entries: Sequence[Entry]) -> list[dict[str, int]]:
        return [self._read(entry) for entry in entries]

    def next_digest(self, timeout: float) -> Digest | None:
        return self._digests.next(timeout)

    def close(self) -> None:
        """Does nothing, because there is no connection."""

    def settle(self, timeout: float) -> None:
        """Waits until the controller has handled all digests (`DigestQueue.settle`)."""
        self._digests.settle(timeout)

    def _on_digest(self, digest: passing.Digest) -> None:
        self._digests.put(Digest(digest.name, digest.fields))

    # ---- writes

    def _each(self, entries: Sequence[Entry], write: Callable[[Entry], None]) -> None:
        for entry in entries:
            try:
                with self._turn:
                    write(entry)
            except (ProgramError, KeyError, ValueError) as error:
                raise SystemCallError(f"{entry}: {error}") from error

    def _insert(self, entry: Entry) -> None:
        manager = self.chip.traffic_manager
        data = entry.data
        if entry.table == _PORTS:
            _add(self._ports, _number(entry, _PORT), dict(data))  # packets come and go by all ports, set up or not
        elif entry.table == "$pre.node":
            node = (data["$MULTICAST_RID"], data["$DEV_PORT"])
            _add(manager.nodes, _number(entry, "$MULTICAST_NODE_ID"), node)
        elif entry.table == "$pre.mgid":
            nodes = data["$MULTICAST_NODE_ID"]
            if missing := set(nodes) - manager.nodes.keys():  # type: ignore[arg-type]
                raise ProgramError(f"there are no nodes {missing}")
            _add(manager.groups, _number(entry, "$MGID"), nodes)
        elif entry.table.removeprefix(_PIPE) in self._inventory.value_sets:
            self._insert_member(entry)
        else:
            table, matches, priority = self._match_entry(entry)
            action = self._action(entry, table)
            table.insert(matches, priority, action)

    def _insert_member(self, entry: Entry) -> None:
        value_set = self._inventory.value_sets[entry.table.removeprefix(_PIPE)]
        match = entry.key["f1"]
        assert isinstance(match, Ternary) and len(entry.key) == 1
        if len(value_set.members) == value_set.size:
            raise ProgramError("the value set is full")
        value_set.members.append(Masked(match.value & match.mask, match.mask))

    def _modify(self, entry: Entry) -> None:
        name = entry.table.removeprefix(_PIPE)
        if entry.table == "$pre.prune":
            exclusion, ports = _number(entry, "$MULTICAST_L2_XID"), entry.data["$DEV_PORT"]
            self.chip.traffic_manager.prunes[exclusion] = ports  # type: ignore[assignment]
        elif name in self._inventory.registers:
            self._write_register(name, entry)
        elif name in self._inventory.counters:
            written = _numbers(entry.data)
            for number, memory in enumerate(self.chip.pipes):
                counted = memory.counters[name, _number(entry, "$COUNTER_INDEX")]
                counted[:] = [0 if number else written[field] for field in _FIELDS_OF_A_COUNTER]
        else:
            table, matches, priority = self._match_entry(entry)
            action = self._action(entry, table)
            if not table.delete(matches, priority):
                raise ProgramError("there is no such entry")
            table.insert(matches, priority, action)

    def _write_register(self, name: str, entry: Entry) -> None:
        register, index = self._inventory.registers[name], _number(entry, "$REGISTER_INDEX")
        written = _numbers(entry.data)
        if not 0 <= index < register.size:
            raise ProgramError(f"{name} has no cell {index}")
        values = {field: written[f"{name}.{field}"] for field in register.fields}
        for field, width in register.fields.items():
            if values[field] >> width:
                raise ProgramError(f"{values[field]} has more than {width} bits")
        for memory in self.chip.pipes:
            memory.registers[name][index] = dict(values)

    def _delete(self, entry: Entry) -> None:
        manager = self.chip.traffic_manager
        if entry.table == _PORTS:
            self._ports.pop(_number(entry, _PORT), None)
        elif entry.table == "$pre.node":
            node = _number(entry, "$MULTICAST_NODE_ID")
            if any(node in nodes for nodes in manager.groups.values()):
                raise ProgramError("a group has this node")
            manager.nodes.pop(node, None)
        elif entry.table == "$pre.mgid":
            manager.groups.pop(_number(entry, "$MGID"), None)
        else:
            table, matches, priority = self._match_entry(entry)
            table.delete(matches, priority)

    def _match_entry(self, entry: Entry) -> tuple[Table, tuple[Match, ...], int]:
        table = self._inventory.tables[entry.table.removeprefix(_PIPE)]
        if table.constant:
            raise ProgramError("the program has the entries of this table")
        names = set(entry.key) - {_PRIORITY}
        if names != {key.name for key in table.keys}:
            raise ProgramError(f"its keys are {', '.join(key.name for key in table.keys)}")
        matches = tuple(_match(key, entry.key[key.name]) for key in table.keys)
        return table, matches, _number(entry, _PRIORITY) if _PRIORITY in entry.key else 0

    @staticmethod
    def _action(entry: Entry, table: Table) -> Callable[[passing.Pass], object]:
        control = table.name.rpartition(".")[0]
        if not entry.action.startswith(f"{control}."):
            raise ProgramError(f"{table.name} has no action {entry.action}")
        return table.action(entry.action.removeprefix(f"{control}."), _numbers(entry.data))

    # ---- reads

    def _read(self, entry: Entry) -> dict[str, int]:
        if entry.table in _PORT_COUNTERS:
            (number,) = entry.key.values()
            counters = dataclasses.asdict(self.chip.ports[number])  # type: ignore[index]
            return {field: counters.get(name, 0) for field, name in _PORT_COUNTERS[entry.table].items()}
        name = entry.table.removeprefix(_PIPE)
        if name in self._inventory.counters:
            index = _number(entry, "$COUNTER_INDEX")
            counted = [memory.counters[name, index] for memory in self.chip.pipes]
            return {field: sum(pipe[i] for pipe in counted) for i, field in enumerate(_FIELDS_OF_A_COUNTER)}
        registers = self.chip.pipes[self._pipe].registers
        held = registers[name].get(_number(entry, "$REGISTER_INDEX"), {})
        fields = self._inventory.registers[name].fields
        return {f"{name}.{field}": _or_zero(held.get(field, 0)) for field in fields}


def _match(key: Key, match: EntryMatch) -> Match:
    mask = key.code.type.mask  # type: ignore[union-attr]
    if isinstance(match, Ternary) and key.kind == "ternary":
        if match.value & ~match.mask or match.mask & ~mask:
            raise ProgramError(f"{key.name}={match} does not fit {key.code.type}")
        return Masked(match.value, match.mask)
    if isinstance(match, Range) and key.kind == "range":
        return Between(match.low, match.high)
    if isinstance(match, int) and key.kind == "exact" and not match & ~mask:
        return Masked(match, mask)
    raise ProgramError(f"{key.name}={match} does not fit a key of kind {key.kind}, {key.code.type}")


def _number(entry: Entry, name: str) -> int:
    number = entry.key[name]
    if not isinstance(number, int):
        raise ProgramError(f"{name} is {number}")
    return number


def _add(held: dict, number: int, value: object) -> None:
    if number in held:
        raise ProgramError(f"there is a {number} already")
    held[number] = value


def _numbers(data: Mapping[str, object]) -> dict[str, int]:
    return {name: int(value) for name, value in data.items()}  # type: ignore[call-overload]


def _or_zero(value: object) -> int:
    """Reads memory that nothing has written as 0. The memory may hold anything, but only a read by the program would be
    an error, not one by the driver."""
    return 0 if isinstance(value, Unknown) else int(value)  # type: ignore[call-overload]
