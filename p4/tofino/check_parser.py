#!/usr/bin/env python3
"""Checks that a compiled parser compares what the program's `select`s compare.

p4/tofino/check_parser.py FOLDER     # of one compilation, with the assembly (*.bfa)

p4c has lost all values of selects for Tofino 1 from its change #5063 on: in the assembly, every transition of a state
matches everything, so the chip takes the first one. Nothing else shows it, as such an assembly is accepted. The exit
code is 1 if a parser is like that.
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
            f"{len(wrong)} faults: this compiler drops what the parser's selects compare, so the program would take "
            'every packet for the same. See docs/tofino.md, "Compilers"',
            file=sys.stderr,
        )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
