"""Finds the collectives in the text of a compiled program, as XLA prints an HLO module."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

# `  %name = TYPE opcode(%operand, ...), attribute=..., metadata={op_name="..."}`; TYPE may be a tuple.
_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%[\w.-]+ = (?:\(.*?\)|\S+) ([a-z][\w-]*)\((.*)$")
_COMPUTATION = re.compile(r"^(?:ENTRY )?%([\w.-]+) \(.*\{$")
_ROOT = re.compile(r"^\s*ROOT %[\w.-]+ = \S+ ([a-z][\w-]*)\(")
_TARGET = re.compile(r'custom_call_target="([^"]*)"')
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_IDENTITY = re.compile(r"identity = (-?\d+) : i64")
_TO_APPLY = re.compile(r"to_apply=%([\w.-]+)")

_COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "collective-permute", "ragged-all-to-all")


@dataclasses.dataclass(frozen=True)
class Collective:
    """One instruction that is a collective.

    Attributes:
      kind: its HLO opcode, or the target of a custom call.
      operands: how many operands it takes, the token of a custom call among them.
      sums: whether it computes a sum.
      made_of: the JAX operation that it came from, such as "psum"; empty if XLA does not say.
      identity: a custom call's identity, if it has one, as an unsigned number of 64 bits.
    """

    kind: str
    operands: int
    sums: bool
    made_of: str
    identity: int | None = None


def collectives(text: str, targets: frozenset[str]) -> Iterator[Collective]:
    """Yields XLA's collectives in the module's text, and its custom calls with one of the `targets`."""
    lines = text.splitlines()
    roots = _roots(lines)
    for line in lines:
        found = _INSTRUCTION.match(line)
        if not found:
            continue
        opcode, rest = found.group(1).removesuffix("-start"), found.group(2)
        if opcode == "custom-call":
            target = _TARGET.search(rest)
            if target and target.group(1) in targets:
                yield Collective(target.group(1), _operands(rest), True, _made_of(rest), _identity(rest))
        elif opcode in _COLLECTIVES:
            computation = _TO_APPLY.search(rest)
            # A psum of booleans is an `or` here and does not count as a sum. A sum of several arrays also has one
            # `add`.
            sums = computation is not None and roots.get(computation.group(1)) == "add"
            yield Collective(opcode, _operands(rest), sums, _made_of(rest))


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


def _operands(rest: str) -> int:
    return rest[: rest.index(")")].count("%")


def _identity(rest: str) -> int | None:
    found = _IDENTITY.search(rest)
    return int(found.group(1)) % 2**64 if found else None


def _made_of(rest: str) -> str:
    found = _OP_NAME.search(rest)
    return found.group(1).rpartition("/")[2] if found else ""
