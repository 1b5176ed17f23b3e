"""Finds the collectives in the text of a compiled program, as XLA prints an HLO module."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator

# `  %name = TYPE opcode(%operand, ...), attribute=..., metadata={op_name="..."}`; TYPE may be a tuple.
_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%([\w.-]+) = (\(.*?\)|\S+) ([a-z][\w-]*)\((.*)$")
_COMPUTATION = re.compile(r"^(?:ENTRY )?%([\w.-]+) \(.*\{$")
_ROOT = re.compile(r"^\s*ROOT %[\w.-]+ = \S+ ([a-z][\w-]*)\(")
_TARGET = re.compile(r'custom_call_target="([^"]*)"')
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_IDENTITY = re.compile(r"identity = (-?\d+) : i64")
_ARRAY = re.compile(r"\b([a-z]+\d\w*|pred)\[([\d,]*)\]")
# The tables that say where an operation came from: numbered files, places in them, and stack frames at these places.
_FILE = re.compile(r'^(\d+) "(.*)"$')
_LOCATION = re.compile(r"^(\d+) \{file_name_id=(\d+) .*?line=(\d+)")
_FRAME = re.compile(r"^(\d+) \{file_location_id=(\d+)")
_FRAME_OF = re.compile(r"stack_frame_id=(\d+)")
_NAME = re.compile(r"%([\w.-]+)")
_BITS = re.compile(r"\d+")
_TO_APPLY = re.compile(r"to_apply=%([\w.-]+)")

_MOST_ARRAYS = 3  # that a collective's text names

SUMMING = frozenset(
    (
        *("psum", "psum_invariant", "reduce_scatter", "reduce_sum", "dot_general", "ragged_dot_general"),
        *("conv_general_dilated", "scatter-add", "select_and_scatter_add", "reduce_window_sum", "cumsum", "add_any"),
    )
)
"""JAX's operations of which the partitioner makes true sums.

It also moves data with sums: `x[5]` of a divided array is the sum of that row, from the device that has it, and zeros
from all others. The operation is then `squeeze` or `gather`, for example.
"""

_COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "collective-permute", "ragged-all-to-all")


@dataclasses.dataclass(frozen=True)
class Collective:
    """One instruction that is a collective.

    Attributes:
      kind: its HLO opcode, or the target of a custom call.
      operands: how many operands it takes, the token of a custom call among them.
      sums: whether it computes a sum.
      made_of: the JAX operations that it came from, such as ("psum",). XLA merges collectives of several operations.
        Empty if XLA does not say.
      identity: a custom call's identity, if it has one, as an unsigned number of 64 bits.
      arrays: the types of its results, such as "f32[4,3]".
      where: the line of the program that it came from, FILE:LINE; empty if XLA does not say.
      taken: the types of its operands, such as "f32[2,3]".
    """

    kind: str
    operands: int
    sums: bool
    made_of: tuple[str, ...]
    identity: int | None = None
    arrays: tuple[str, ...] = ()
    where: str = ""
    taken: tuple[str, ...] = ()

    def __str__(self) -> str:
        arrays = ", ".join(self.arrays[:_MOST_ARRAYS])
        more = f" and {len(self.arrays) - _MOST_ARRAYS} more" if len(self.arrays) > _MOST_ARRAYS else ""
        where = f" ({self.where})" if self.where else ""
        made_of = dict.fromkeys(name.removesuffix("_invariant") for name in self.made_of)
        return f"{' and '.join(made_of) or self.kind} {arrays}{more}{where}"

    @property
    def only_moves(self) -> bool:
        """Whether it may be a sum of one device's data and the zeros of all others: see `SUMMING`."""
        return self.sums and not (self.made_of and SUMMING.issuperset(self.made_of))

    @property
    def sizes(self) -> list[int]:
        """The number of elements of each result."""
        return [elements(array) for array in self.arrays]


def elements(array: str) -> int:
    """The number of elements of an array of this type, such as "f32[4,3]"."""
    return math.prod(map(int, filter(None, array.partition("[")[2].rstrip("]").split(","))))


def size(array: str) -> int:
    """The bytes of an array of this type. An element of less than a byte takes one."""
    bits = _BITS.search(array.partition("[")[0])
    return elements(array) * max(1, int(bits.group()) // 8 if bits else 1)


def collectives(text: str, targets: frozenset[str]) -> Iterator[Collective]:
    """Yields XLA's collectives in the module's text, and its custom calls with one of the `targets`."""
    lines = text.splitlines()
    roots = _roots(lines)
    frames = _frames(lines)
    types: dict[str, str] = {}  # of the instructions so far, by name
    for line in lines:
        found = _INSTRUCTION.match(line)
        if not found:
            continue
        name, result, opcode, rest = found.groups()
        types[name], opcode, arrays = result, opcode.removesuffix("-start"), _arrays(result)
        if opcode == "custom-call":
            target = _TARGET.search(rest)
            if target and target.group(1) in targets:
                identity, where = _identity(rest), _where(rest, frames)
                yield Collective(target.group(1), _operands(rest), True, _made_of(rest), identity, arrays, where)
        elif opcode in _COLLECTIVES:
            computation = _TO_APPLY.search(rest)
            # A psum of booleans is an `or` here and does not count as a sum. A sum of several arrays also has one
            # `add`.
            sums = computation is not None and roots.get(computation.group(1)) == "add"
            where = _where(rest, frames)
            operands = _NAME.findall(rest[: rest.index(")")])
            taken = _arrays(" ".join(types.get(operand, "") for operand in operands))
            yield Collective(opcode, len(operands), sums, _made_of(rest), arrays=arrays, where=where, taken=taken)


def _roots(lines: list[str]) -> dict[str, str]:
    """The opcode of each computation's result, by the computation's name."""
    roots: dict[str, str] = {}
    name = ""
    for line in lines:
        if found := _COMPUTATION.match(line):
            name = found.group(1)
        elif found := _ROOT.match(line):
            roots[name] = found.group(1)
    return roots


def _frames(lines: list[str]) -> dict[str, str]:
    """The file and line of each stack frame, by the frame's number."""
    tables: dict[str, dict[str, str]] = {"FileNames": {}, "FileLocations": {}, "StackFrames": {}}
    table = ""
    for line in lines:
        if line in (*tables, "FunctionNames"):
            table = line
        elif table == "FileNames" and (found := _FILE.match(line)):
            tables[table][found.group(1)] = found.group(2)
        elif table == "FileLocations" and (found := _LOCATION.match(line)):
            file = tables["FileNames"].get(found.group(2), "?")
            tables[table][found.group(1)] = f"{file}:{found.group(3)}"
        elif table == "StackFrames" and (found := _FRAME.match(line)):
            tables[table][found.group(1)] = tables["FileLocations"].get(found.group(2), "")
        elif line.startswith("%"):
            break
    return tables["StackFrames"]


def _where(rest: str, frames: dict[str, str]) -> str:
    found = _FRAME_OF.search(rest)
    return frames.get(found.group(1), "") if found else ""


def _operands(rest: str) -> int:
    return rest[: rest.index(")")].count("%")


def _arrays(text: str) -> tuple[str, ...]:
    """The types of arrays in the text, without their layouts."""
    return tuple(f"{kind}[{sizes}]" for kind, sizes in _ARRAY.findall(text))


def _identity(rest: str) -> int | None:
    found = _IDENTITY.search(rest)
    return int(found.group(1)) % 2**64 if found else None


def _made_of(rest: str) -> tuple[str, ...]:
    found = _OP_NAME.search(rest)
    return tuple(_operations(found.group(1))) if found else ()


def _operations(path: str) -> Iterator[str]:
    """Yields the last parts of an operation's path, `jit(f)/jvp()/dot_general`.

    XLA writes the paths of merged operations as one, with their common beginning once: `jit(f)/(reduce_sum:jvp()/mul)`.
    """
    last = _split(path, "/")[-1]
    if last.startswith("(") and last.endswith(")"):
        for one in _split(last[1:-1], ":"):
            yield from _operations(one)
    else:
        yield last


def _split(path: str, separator: str) -> list[str]:
    """Splits at each separator that is not in parentheses."""
    parts, depth = [""], 0
    for character in path:
        depth += (character == "(") - (character == ")")
        if character == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts
