#!/usr/bin/env python3
"""Checks what a compiler has made of a program's parsers. The exit code is 1 if it is one of these faults:

p4/tofino/check_parser.py FOLDER     # of one compilation, with the assembly (*.bfa)

* The parser does not compare what the program's `select`s compare. p4c has lost all values of selects for Tofino 1 from
  its change #5063 on: in the assembly, every transition of a state matches everything, so the chip takes the first
  one.
* The parser writes a part of a packet over what tells the chip where the packet goes. An extraction fills a whole
  container. p4c may place a field of 8 bits in a container of 16, and beside it such a bit, which it expects to be 0.

Nothing else shows them, as such assemblies are accepted.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

# A transition begins with its pattern, of digits and wildcards, or with the name of a value set.
_TRANSITION = re.compile(
    r"(?P<pattern>0x[0-9a-f*]+|0b[01*]+|[0-9]+|\*+)(?: *\.\.+)?:|value_set (?P<value_set>\S+)", re.IGNORECASE
)


# A byte range of the packet goes to a container: whole, or the bits that comments name.
_EXTRACTION = re.compile(r"\s*\d+(?:\.\.\d+)?: (?P<container>[BHW]\d+)\b(?P<comment>.*)")
_BITS = re.compile(r"-> (?P<container>[BHW]\d+) bit\[(?P<high>\d+)\.\.(?P<low>\d+)\]")
_SIZES = {"B": 8, "H": 16, "W": 32}
# What the traffic manager and the deparser are told, and where it lies.
_TOLD = re.compile(
    r"\s*(?:[\w-]+:|-) (?P<container>[BHW]\d+)(?:\((?P<low>\d+)\.\.(?P<high>\d+)\))? *#"
    r".*?(?P<field>\w+_intr_md_for_[\w.]+)"
)


def parsers(assembly: str) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Yields each parser's gress, and the patterns of the transitions of its states, by the states' names."""
    gress, states, of_states, of_transitions, patterns = "", {}, None, None, None
    for line in assembly.splitlines():
        text, depth = line.strip(), len(line) - len(line.lstrip())
        if not text or text.startswith("#"):
            continue
        if depth == 0:
            if states:
                yield gress, states
            found = re.match(r"parser (ingress|egress)", text)
            gress, states, of_states = (found[1] if found else ""), {}, None
            continue
        if not gress:
            continue
        if of_states is None:
            if text == "states:":
                of_states = -1  # the depth of the first state says it
            continue
        if of_states == -1:
            of_states = depth
        if depth == of_states:
            patterns = states.setdefault(text.rstrip(":"), [])
            of_transitions = None
        elif patterns is not None and (found := _TRANSITION.match(text)) and of_transitions in (None, depth):
            of_transitions = depth
            patterns.append(found["pattern"] or found["value_set"])
    if states:
        yield gress, states


def matches_all(pattern: str) -> bool:
    return set(pattern.lower().removeprefix("0x").removeprefix("0b")) == {"*"}


def _bits(found: re.Match[str]) -> set[int]:
    """The bits of a container that a line names, or all of them."""
    if found["low"] is None:
        return set(range(_SIZES[found["container"][0]]))
    return set(range(int(found["low"]), int(found["high"]) + 1))


def overwritten(assembly: str) -> Iterator[tuple[str, str, str]]:
    """Yields parts of packets that lie over what the chip is told: gress, container, field."""
    section = ""
    filled: dict[tuple[str, str], list[set[int]]] = {}  # the bits that each extraction into a container is meant for
    for line in assembly.splitlines():
        if not line.startswith((" ", "#")):
            section = line.strip().rstrip(":")
        kind, _, gress = section.partition(" ")
        if kind == "parser" and (found := _EXTRACTION.match(line)):
            meant = set().union(*map(_bits, _BITS.finditer(found["comment"])))
            whole = set(range(_SIZES[found["container"][0]])) if found["comment"].strip() else set()
            filled.setdefault((gress, found["container"]), []).append(meant or whole)
        elif kind == "parser" and (found := _BITS.search(line)) and (gress, found["container"]) in filled:
            filled[gress, found["container"]][-1] |= _bits(found)
        elif kind == "deparser" and (told := _TOLD.match(line)):
            extractions = filled.get((gress, told["container"]), [])
            if any(_bits(told) - meant for meant in extractions):
                yield gress, told["container"], told["field"]


def faults(assembly: str) -> list[str]:
    """Says what is wrong with the parsers of an assembly."""
    found, seen = [], False
    for gress, states in parsers(assembly):
        seen = True
        for state, patterns in states.items():
            if sum(map(matches_all, patterns)) > 1:
                found.append(f"the {gress} parser's state {state} has {len(patterns)} transitions that compare nothing")
        if all(matches_all(pattern) for patterns in states.values() for pattern in patterns):
            found.append(f"the {gress} parser compares nothing at all")
    for gress, container, field in sorted(set(overwritten(assembly))):
        found.append(f"the {gress} parser overwrites {field} in {container} with bytes of the packet")
    return found if seen else ["there is no parser in the assembly"]


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    files = list(Path(sys.argv[1]).rglob("*.bfa"))
    if not files:
        sys.exit(f"{sys.argv[1]}: no assembly (*.bfa)")
    wrong = [f"{file}: {fault}" for file in files for fault in faults(file.read_text())]
    for line in wrong[:8]:
        print(line, file=sys.stderr)
    if wrong:
        print(
            f"{len(wrong)} faults: the chip would take packets for the same that differ, or send them elsewhere. See "
            'docs/tofino.md, "Compilers"',
            file=sys.stderr,
        )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
