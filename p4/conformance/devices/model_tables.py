"""The chip's model behind the interface of the project's controller, `jaxina.controller.tables.Tables`.

The harness can add entries, but neither remove nor change them. So a model serves one vector, and then a new one takes
its place.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from interpreter.digest_queue import DigestQueue

from conformance.devices.compiled import Compiled
from conformance.devices.harness import Answer, Harness, HarnessError
from conformance.devices.patterns import pattern, prefixes
from jaxina.controller import port_load
from jaxina.controller.chip import Size
from jaxina.controller.tables import Digest, Entry, Match, Ternary
from jaxina.errors import SystemCallError

_PIPE = "pipe."
_PIPES = range(4)
_PRIORITY = "$MATCH_PRIORITY"
# How many priorities an admission table has; 0 is the most important.
_PRIORITIES = collections.defaultdict(lambda: 5, {"Ingress.atp_admission.updates": 7})
_TICK = 2_000_000  # picoseconds between two rounds
# That a millisecond has. The model's timestamps count 1.25 for a nanosecond of its ticks, those of the chip count one.
_PICOSECONDS = 800_000_000
_COUNTED = {"packets": "$COUNTER_SPEC_PKTS", "bytes": "$COUNTER_SPEC_BYTES"}
# Recirculation ports: the register of each pipe, 0x800000 apart, that lets the four channels send packets round again.
_RECIRCULATION, _OF_A_PIPE, _ON = 0x273D01C, 0x800000, 0x000F0001
# Learning filters: registers of each pipe, 0x40000 apart. The first one sets after how many digests the filter sends
# them, the second one lets it forget those that it has sent.
_SENDS_AFTER, _FORGETS, _OF_A_FILTER = 0x220018, 0x22001C, 0x40000
# The replication engines, 0x8000 apart: their registers, with what lets them walk a tree of any size.
_REPLICATION, _OF_AN_ENGINE = {0x600000: 0xFF000000, 0x600004: 0xF, 0x600020: 0xFFFFF, 0x600024: 0xFFFFF}, 0x8000
_BLOCKS = {0x620040: 0x55550000, 0x620044: 0xFFFFAAAA}  # which engine has which block of nodes, 8 blocks for each
# The fields of the registers (p4/tofino/types.p4), the one in the lower half of a cell first.
_FIELDS = collections.defaultdict(
    lambda: ("f1",),
    {
        "Ingress.slot_turn.turns": ("turn", "distance"),
        "Ingress.pass_tag.tags": ("epoch", "fingerprint"),
        "Ingress.worker_stamp.stamps": ("even", "odd"),
        **{f"Ingress.adder_{adder:02}.words": ("low", "high") for adder in range(32)},
    },
)


class ModelTables:
    """The tables of a model that has just loaded the program.

    Args:
      binary: the harness.
      program: what the compiler has made.
      size: the program's size.

    Attributes:
      lost: how many copies the chip has lost, see `lose`.
    """

    def __init__(self, binary: Path, program: Compiled, size: Size):
        self._program = program
        self._pool_pipe = size.pool_pipe
        passes = 1 + len(port_load.steps(size)) + 1  # and one to be handed over
        self._rounds = 2 * passes  # some passes take two
        self._lock = threading.RLock()  # the control service's threads and the digests' thread share the harness
        self._next_address: dict[tuple[str, int], int] = {}
        self._nodes: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._members: dict[str, int] = {}
        self._cleared: dict[tuple[str, int], dict[str, int]] = {}
        self._too_late = ""  # what the model could not do; from then on it takes no packets
        self._digests = DigestQueue()
        self.lost = 0
        self._harness = Harness(binary, program.folder)
        self._ask([f"reg {_RECIRCULATION + pipe * _OF_A_PIPE:#x} {_ON:#x}" for pipe in _PIPES])
        self._ask([f"reg {_SENDS_AFTER + pipe * _OF_A_FILTER:#x} 1" for pipe in _PIPES])
        engines = [(at + pipe * _OF_AN_ENGINE, value) for pipe in _PIPES for at, value in _REPLICATION.items()]
        self._ask([f"reg {at:#x} {value:#x}" for at, value in [*engines, *_BLOCKS.items()]])
        self._ask([f"zero {name}" for name in program.memories])
        self._ask([f"parser_row {row} never" for set_ in program.value_sets.values() for row in set_.rows])

    def send(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Lets a frame come in on a port, and returns what leaves the chip: (port, frame).

        Raises:
          HarnessError: if the model cannot take it any more.
        """
        if self._too_late:
            raise HarnessError(f"the harness cannot do this, so what follows would not count: {self._too_late}")
        with self._lock:
            answers = [self._ask([f"packet {port} {frame.hex()}"])]
            for _ in range(self._rounds):
                answers.append(self._ask(["idle", f"tick {_TICK}"]))
                self._harness.rest()
            answers.append(self._ask(["idle"]))
        learned = sorted({pipe for answer in answers for pipe, _ in answer.digests})
        if learned:
            self._ask([f"reg {_FORGETS + pipe * _OF_A_FILTER:#x} 1" for pipe in learned])
        return [frame for answer in answers for frame in answer.frames]

    def lose(self, share: float, seed: int) -> None:
        """From now on, the traffic manager drops this share of the copies that ingress sends to it."""
        self._ask([f"lose {share:g} {seed}"])

    def wait(self, milliseconds: int) -> None:
        """Lets time pass in the model."""
        self._ask([f"tick {milliseconds * _PICOSECONDS}", "idle"])

    def cell(self, pipe: int, register: str, index: int) -> dict[str, int]:
        """Returns the fields of a register's cell in a pipe."""
        (values,) = self._ask([f"check_register {pipe}:{register}({index})"]).values
        cell = dict(zip(_FIELDS[register], (values["lo"], values.get("hi", 0)), strict=False))
        # Memory that nothing has written is 0 in the model.
        return {} if "adder" in register and not any(cell.values()) else cell

    def set_field(self, register: str, index: int, field: str, value: int) -> None:
        """Changes one field of a cell in all pipes."""
        self._ask([f"set_register {register}({index}) {_half(register, field)}={value}"])

    def insert(self, entries: Sequence[Entry]) -> None:
        self._write(entries, self._insert)

    def modify(self, entries: Sequence[Entry]) -> None:
        self._write(entries, self._modify)

    def delete(self, entries: Sequence[Entry]) -> None:
        if entries:
            self._too_late = f"delete {entries[0]}"

    def clear(self, table: str) -> None:
        """Does nothing: a model that has just begun has no entries."""

    def entries(self, table: str, fields: Sequence[str]) -> list[Entry]:
        return []  # the controller asks for ports only, and none is up

    def read(self, entries: Sequence[Entry]) -> list[dict[str, int]]:
        return [self._read(entry) for entry in entries]

    def next_digest(self, timeout: float) -> Digest | None:
        return self._digests.next(timeout)

    def settle(self, timeout: float) -> None:
        """Waits until the controller has handled all digests (`DigestQueue.settle`)."""
        self._digests.settle(timeout)

    def close(self) -> None:
        self._harness.close()

    def _ask(self, commands: Sequence[str]) -> Answer:
        with self._lock:
            answer = self._harness.ask(*commands)
            self.lost += len(answer.lost)
        for _, data in answer.digests:
            digest = Digest(*self._program.digest(data))
            self._digests.put(digest)
        return answer

    # ---- writes

    def _write(self, entries: Sequence[Entry], commands: Callable[[Entry], list[str]]) -> None:
        try:
            asked = [command for entry in entries for command in commands(entry)]
            if asked:
                self._ask(asked)
        except (HarnessError, KeyError, ValueError) as error:
            raise SystemCallError(f"{entries[0]}: {error}") from error

    def _insert(self, entry: Entry) -> list[str]:
        data, name = entry.data, entry.table.removeprefix(_PIPE)
        if entry.table == "$PORT":
            return []  # the harness sets up a port when its first packet comes
        if entry.table == "$pre.node":
            self._nodes[_number(entry, "$MULTICAST_NODE_ID")] = (data["$MULTICAST_RID"], data["$DEV_PORT"])  # type: ignore[assignment]
            return []
        if entry.table == "$pre.mgid":
            found = [self._nodes[node] for node in data["$MULTICAST_NODE_ID"]]  # type: ignore[union-attr]
            copies = [f"{rid}:{port}" for rid, ports in found for port in ports]
            return [f"group {_number(entry, '$MGID')} {' '.join(copies)}"]
        if name in self._program.value_sets:
            return self._member(name, entry)
        address = self._address(name, entry)
        keys = [(key, match) for key, match in entry.key.items() if key != _PRIORITY]
        action = entry.action
        parameters = ", ".join(f"{field}:{value}" for field, value in data.items())
        return [
            f"add {name}{address()} {' '.join(matches)} {action}({parameters})" for matches in self._rows(name, keys)
        ]

    def _member(self, name: str, entry: Entry) -> list[str]:
        match = entry.key["f1"]
        assert isinstance(match, Ternary)
        number = self._members.get(name, 0)
        self._members[name] = number + 1
        row, value, mask = self._program.value_sets[name].row(number, match)
        return [f"parser_row {row} {value:#x} {mask:#x}"]

    def _modify(self, entry: Entry) -> list[str]:
        name = entry.table.removeprefix(_PIPE)
        if entry.table == "$pre.prune":
            ports = entry.data["$DEV_PORT"]
            return [f"prune {_number(entry, '$MULTICAST_L2_XID')} {' '.join(map(str, ports))}"]  # type: ignore[arg-type]
        if "$REGISTER_INDEX" in entry.key:
            written = " ".join(f"{_half(name, _last(field))}={value}" for field, value in entry.data.items())
            return [f"set_register {name}({_number(entry, '$REGISTER_INDEX')}) {written}"]
        if "$COUNTER_INDEX" in entry.key:
            index = _number(entry, "$COUNTER_INDEX")
            self._cleared[name, index] = self._counted(name, index)
            return []
        self._too_late = f"modify {entry}"
        return []

    def _rows(self, name: str, keys: Sequence[tuple[str, Match]]) -> list[list[str]]:
        """Returns the matches of an entry as the harness writes them. A range takes several rows."""
        rows: list[list[str]] = [[]]
        for key, match in keys:
            field, width = self._program.key(name, key)
            if isinstance(match, int):
                patterns = [f"{match:#x}"]
            elif isinstance(match, Ternary):
                patterns = [pattern(match, width)]
            else:
                patterns = [pattern(prefix, width) for prefix in prefixes(match, width)]
            rows = [[*row, f"{field}:{pattern}"] for row in rows for pattern in patterns]
        return rows

    def _address(self, name: str, entry: Entry) -> Callable[[], str]:
        """Returns a function that finds a place for a row of the entry. In a ternary table, a row at a higher address
        wins, so each priority has its share of the addresses. In other tables the harness finds the place itself."""
        if _PRIORITY not in entry.key:
            return lambda: ""
        priority = _number(entry, _PRIORITY)
        share = self._program.size(name) // _PRIORITIES[name]

        def find() -> str:
            number = self._next_address.get((name, priority), 0)
            if number == share:
                raise ValueError(f"{name} has no place for another entry of priority {priority}")
            self._next_address[name, priority] = number + 1
            return f" {(_PRIORITIES[name] - 1 - priority) * share + number}"

        return find

    # ---- reads

    def _read(self, entry: Entry) -> dict[str, int]:
        name = entry.table.removeprefix(_PIPE)
        if "$COUNTER_INDEX" in entry.key:
            index = _number(entry, "$COUNTER_INDEX")
            cleared = self._cleared.get((name, index), {})
            return {field: value - cleared.get(field, 0) for field, value in self._counted(name, index).items()}
        if "$REGISTER_INDEX" not in entry.key:
            raise SystemCallError(f"the harness does not read {name}")
        cell = self.cell(self._pool_pipe, name, _number(entry, "$REGISTER_INDEX"))
        return {field: cell[_last(field)] for field in entry.data}

    def _counted(self, name: str, index: int) -> dict[str, int]:
        """Returns the sums of a counter over all pipes."""
        values = self._ask([f"check_counter {pipe}:{name}({index})" for pipe in _PIPES]).values
        return {field: sum(value[counted] for value in values) for counted, field in _COUNTED.items()}


def _half(register: str, field: str) -> str:
    return ("lo", "hi")[_FIELDS[register].index(field)]


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _number(entry: Entry, name: str) -> int:
    number = entry.key[name]
    if not isinstance(number, int):
        raise ValueError(f"{name} is {number}")
    return number
