"""Who sums what: for each program that was compiled, which collectives jaxina carries, which stay with XLA, and why.

It is read from what XLA has made of a program, so it has the collectives that XLA's partitioner puts in, too.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import re
import threading
from collections.abc import Callable
from typing import Any

from jaxina import _hlo, _native
from jaxina.errors import NotCarriedError

_log = logging.getLogger("jaxina")

# What JAX calls the sums that a program asks for. All other sums come from XLA's partitioner.
_ASKED_FOR = ("psum", "psum_invariant", "reduce_scatter")
# The module's attribute in which the lowering leaves its reasons for the compiled program, and what parts them.
REASONS, SEPARATOR = "jaxina.stays", "; "
OFF = "jaxina.collectives(False)"
SUMS_NOTHING = "sums nothing"
PARTITIONER = "put in by XLA's partitioner; "
UNKNOWN = "lowered before jaxina.init()"

_NAME = re.compile(r"HloModule ([^\s,]+)")
_REASONS = re.compile(re.escape(REASONS) + r'="([^"]*)"')


@dataclasses.dataclass(frozen=True)
class Stays:
    """Collectives of one program that stay with XLA, of one kind and for one reason.

    Attributes:
      kind: HLO's name, as "all-reduce".
      number: how many stand in the program. One in a loop's body counts once.
      why: the reason.
      sums: whether they are sums, which jaxina would carry but for the reason.
    """

    kind: str
    number: int
    why: str
    sums: bool


@dataclasses.dataclass(frozen=True)
class Program:
    """One compiled program that has collectives.

    Attributes:
      name: as XLA has it: "jit_step" for a jitted function `step`.
      carried: how many of its collectives jaxina carries. One in a loop's body counts once.
      tensors: how many arrays these sum.
      stays: all others.
      floats: how many floating-point numbers on CPU this process has given to the carried ones, as of the report. A complex
        number is two.
      rounded_to_zero: how many of these were not zero, but became it: n workers keep 31 - ceil(log2 n) bits of a block's
        largest number, and these were smaller than what that leaves.
    """

    name: str
    carried: int
    tensors: int
    stays: tuple[Stays, ...]
    floats: int = 0
    rounded_to_zero: int = 0

    def __str__(self) -> str:
        parts = []
        if self.carried:
            what = f"{self.carried} collective{'s' * (self.carried > 1)}"
            parts.append(f"carries {what} ({self.tensors} tensor{'s' * (self.tensors > 1)})")
        parts += [f"{one.number} {one.kind}{'s' * (one.number > 1)} with XLA ({one.why})" for one in self.stays]
        if self.rounded_to_zero:
            parts.append(f"{self.rounded_to_zero} of {self.floats} numbers rounded to zero")
        return f"{self.name}: " + ", ".join(parts)


@dataclasses.dataclass(frozen=True)
class Report:
    """The programs that this process has compiled since its first `jaxina.init`, as far as they have collectives and
    several devices."""

    programs: tuple[Program, ...]

    @staticmethod
    def of_records(records: list[dict[str, Any]]) -> Report:
        """From what `dataclasses.asdict` made of the programs."""
        return Report(
            tuple(Program(**{**one, "stays": tuple(Stays(**stay) for stay in one["stays"])}) for one in records)
        )

    @property
    def carried(self) -> int:
        """Collectives in them that jaxina carries."""
        return sum(program.carried for program in self.programs)

    @property
    def stays(self) -> dict[str, int]:
        """Reason -> number of collectives in them that stay with XLA for it."""
        counts: collections.Counter[str] = collections.Counter()
        for program in self.programs:
            for one in program.stays:
                counts[one.why] += one.number
        return dict(counts)

    def __str__(self) -> str:
        return "\n".join(map(str, self.programs)) or "no program with collectives has been compiled"


_lock = threading.Lock()
_programs: list[tuple[Program, frozenset[int]]] = []  # with the names under which the engine counts its sums
_strict = False


def report() -> Report:
    """What jaxina carries, and what stays with XLA, of all programs that this process has compiled for several devices
    while a job was running."""
    counts = _native.sum_counts()
    with _lock:
        return Report(
            tuple(_counted(program, [counts.get(name, (0, 0)) for name in names]) for program, names in _programs)
        )


def rounded_to_zero() -> int:
    """Numbers that became zero in all sums of this process so far; see `Program`."""
    return sum(lost for _, lost in _native.sum_counts().values())


def _counted(program: Program, counts: list[tuple[int, int]]) -> Program:
    floats, lost = (sum(column) for column in zip((0, 0), *counts, strict=True))
    return dataclasses.replace(program, floats=floats, rounded_to_zero=lost)


def be_strict(strict: bool) -> None:
    """Whether a program is refused of which a sum stays with XLA although nobody said so."""
    global _strict
    _strict = strict


def note(
    text: Callable[[], str],
    targets: frozenset[str],
    routed: frozenset[str],
    closed: str | None,
    identity: Callable[[], int],
) -> None:
    """Takes up a compiled program.

    Args:
      text: gives its optimized HLO module.
      targets: custom calls that are jaxina's.
      routed: kinds of XLA's own collectives that XLA calls jaxina for.
      closed: why there are none, if so.
      identity: gives the name under which the engine counts what comes of `routed`.

    Raises:
      NotCarriedError: a sum stays with XLA, and `be_strict(True)` was called.
    """
    try:
        found = text()
    except RuntimeError as error:  # of a backend that keeps its modules for itself
        _log.info("a compiled program cannot be read, and is not in the report: %s", error)
        return
    program, names = _read(found, targets, routed, closed)
    if not program.carried and not program.stays:
        return
    with _lock:
        _programs.append((program, frozenset(names) | ({identity()} if routed else set())))
    _log.info("%s", program)
    if _strict and any(one.sums and one.why != OFF for one in program.stays):
        raise NotCarriedError(f"{program}; init(strict=True) refuses that")


def says_off(text: str) -> bool:
    """Whether a sum of the program, whose optimized HLO module this is, was asked for in `jaxina.collectives(False)`."""
    return OFF in (_reasons(text) or "").split(SEPARATOR)


def _reasons(text: str) -> str | None:
    found = _REASONS.search(text)
    return found.group(1) if found else None


def _read(text: str, targets: frozenset[str], routed: frozenset[str], closed: str | None) -> tuple[Program, set[int]]:
    asked_for = _reasons(text) or UNKNOWN
    off = says_off(text)
    carried = tensors = 0
    names: set[int] = set()  # of custom calls
    stays: collections.Counter[tuple[str, str, bool]] = collections.Counter()
    for one in _hlo.collectives(text, targets):
        if one.kind in targets:
            carried += 1
            tensors += one.operands - 1  # the first is the token
            if one.identity is not None:
                names.add(one.identity)
        elif one.kind in routed and not (one.sums and off):
            carried += 1
            tensors += one.operands
        else:
            partitioner = OFF if one.kind in routed else f"{PARTITIONER}{closed}"
            why = SUMS_NOTHING if not one.sums else asked_for if one.made_of in _ASKED_FOR else partitioner
            stays[one.kind, why, one.sums] += 1
    name = _NAME.search(text)
    program = Program(
        name.group(1) if name else "?",
        carried,
        tensors,
        tuple(Stays(kind, number, why, sums) for (kind, why, sums), number in stays.items()),
    )
    return program, names
