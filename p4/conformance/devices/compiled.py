"""What the compiler says about a compiled program: context.json, and of value sets the assembly."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path

from jaxina.controller.tables import Ternary

# Where the parser's match registers begin in a row, as the harness counts (README.md, "The model").
_REGISTERS = {"half": 0, "byte0": 16, "byte1": 24}
_VALUE_SET = re.compile(r"\s*value_set (\S+) (\d+):")
_MAPPING = re.compile(r"\s*([\w.]+)\((\d+)\.\.(\d+)\) : (\w+)\((\d+)\.\.(\d+)\)")


@dataclasses.dataclass(frozen=True)
class ValueSet:
    """A value set of the parser.

    Attributes:
      rows: the parser's rows, of which each can hold a member.
      bits: where the field's bits are in a row, from the lowest.
    """

    rows: tuple[int, ...]
    bits: tuple[int, ...]

    def row(self, number: int, match: Ternary) -> tuple[int, int, int]:
        """Returns the row of the set's nth member, and the value and the mask that it compares.

        Raises:
          ValueError: if the set is full.
        """
        if number >= len(self.rows):
            raise ValueError(f"a value set has {len(self.rows)} members already")
        value = sum((match.value >> bit & 1) << at for bit, at in enumerate(self.bits))
        mask = sum((match.mask >> bit & 1) << at for bit, at in enumerate(self.bits))
        return self.rows[number], value & mask, mask


class Compiled:
    """A compiled program.

    Args:
      folder: where the compiler has put it.

    Attributes:
      folder: the folder with tofino.bin and context.json.
      value_sets: by name.
    """

    def __init__(self, folder: Path):
        (found,) = folder.rglob("context.json")
        self.folder = found.parent
        self._context = json.loads(found.read_text())
        self._tables = {table["name"]: table for table in self._context["tables"]}
        self._learned = {quanta["lq_cfg_type"]: quanta for quanta in self._context["learn_quanta"]}
        (schema,) = folder.rglob("bfrt.json")
        learned = json.loads(schema.read_text())["learn_filters"]
        self._fields = {one["name"].rpartition(".")[2]: [field["name"] for field in one["fields"]] for one in learned}
        (assembly,) = folder.rglob("*.bfa")
        self.value_sets = dict(self._value_sets(assembly.read_text()))

    def key(self, table: str, key: str) -> tuple[str, int]:
        """Returns a key's name in the pack format, and its bits."""
        for field in self._tables[table]["match_key_fields"]:
            if field["name"] == key:
                return field["name"], field["bit_width"]
        raise KeyError(f"{table} has no key {key}")

    def size(self, table: str) -> int:
        """Returns how many rows a table has."""
        return self._tables[table]["size"]

    @property
    def memories(self) -> list[str]:
        """The names of all registers and counters."""
        return [name for name, table in self._tables.items() if table["table_type"] in ("stateful", "statistics")]

    def digest(self, data: bytes) -> tuple[str, dict[str, int]]:
        """Decodes a digest: its name, and its fields. The harness prints the last byte first."""
        data = data[::-1]
        quanta = self._learned[data[0] % 8]
        name = quanta["name"].rpartition(".")[2]
        parts: dict[str, int] = {}  # by the names that the program gives the fields' sources
        for part in quanta["fields"]:
            # A part begins at this bit of this byte, and goes on to lower bits and later bytes.
            end = part["field_width"] - 1 - part["start_bit"]  # how far behind the first byte it ends, in bits
            whole = -(-max(end, 0) // 8)
            bits = int.from_bytes(data[part["start_byte"] : part["start_byte"] + 1 + whole])
            value = bits >> 8 * whole - end & (1 << part["field_width"]) - 1
            parts[part["field_name"]] = parts.get(part["field_name"], 0) | value << part["phv_offset"]
        return name, dict(zip(self._fields[name], parts.values(), strict=True))

    def _value_sets(self, assembly: str) -> Iterator[tuple[str, ValueSet]]:
        states = self._context["parser"]["ingress"]
        rows = {state["pvs_name"]: state["tcam_rows"] for state in states if state["uses_pvs"]}
        lines = iter(assembly.splitlines())
        name, size, bits = "", 0, {}
        for line in lines:
            if found := _VALUE_SET.match(line):
                name, size, bits = found[1], int(found[2]), {}
            elif name and (found := _MAPPING.match(line)):
                low, at = int(found[2]), _REGISTERS[found[4]] + int(found[5])
                bits |= {low + i: at + i for i in range(int(found[3]) - low + 1)}
            elif name and line.strip().startswith("next:"):
                yield name, ValueSet(tuple(rows[name][:size]), tuple(bits[bit] for bit in sorted(bits)))
                name = ""
