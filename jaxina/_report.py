"""The report: for each compiled program, which collectives jaxina carries, which stay with XLA, and why.

The report is read from the compiled program, not from what the program asked for. So it also covers the collectives
that XLA's partitioner inserts.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

from jaxina import _hlo, _native
from jaxina.errors import NotCarriedError

_log = logging.getLogger("jaxina")

# JAX's names for the sums that a program asks for. All other sums come from XLA's partitioner.
_ASKED_FOR = frozenset(("psum", "psum_invariant", "reduce_scatter"))
# The lowering writes the reasons why sums stay with XLA into this attribute of the module, separated by SEPARATOR. XLA
# copies the attribute to the compiled program.
REASONS, SEPARATOR = "jaxina.stays", "; "
OFF = "jaxina.collectives(False)"
SUMS_NOTHING = "not a sum"
PARTITIONER = "inserted by XLA's partitioner; "
UNKNOWN = "lowered before jaxina.init()"

_NAME = re.compile(r"HloModule ([^\s,]+)")
_REASONS = re.compile(re.escape(REASONS) + r'="([^"]*)"')


@dataclasses.dataclass(frozen=True)
class Stays:
    """Collectives of one program that stay with XLA: those of one kind, for one reason.

    Attributes:
      kind: the HLO opcode, such as "all-reduce".
      number: how many of them the program has. One in a loop's body counts once.
      why: the reason.
      sums: whether they are sums. jaxina would carry a sum if it were not for the reason.
    """

    kind: str
    number: int
    why: str
    sums: bool


@dataclasses.dataclass(frozen=True)
class Program:
    """One compiled program that has collectives.

    ``str(program)`` says all of it in one line.

    Attributes:
      name: XLA's name for it, such as "jit_step" for a jitted function ``step``.
      carried: how many of its collectives jaxina carries. One in a loop's body counts once.
      tensors: how many arrays these collectives take.
      stays: the collectives that stay with XLA.
      floats: how many floating-point numbers on CPU this process has given to the carried collectives, up to the time
        of the report. A complex number counts as two.
      rounded_to_zero: how many of these numbers were not zero but were rounded to zero. n workers keep
        31 - ceil(log2 n) bits of a block's largest number; these numbers were too small for what that leaves. See
        "Block fixed point" in docs/architecture.md.
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
    """The compiled programs that have collectives, as `jaxina.report` returns them.

    ``str(report)`` has one line per program.

    Attributes:
      programs: the programs, in the order in which they were compiled.
    """

    programs: tuple[Program, ...]

    @staticmethod
    def of_records(records: list[dict[str, Any]]) -> Report:
        """Makes a report from the dicts that `dataclasses.asdict` made of its programs."""
        return Report(
            tuple(Program(**{**one, "stays": tuple(Stays(**stay) for stay in one["stays"])}) for one in records)
        )

    @property
    def carried(self) -> int:
        """How many collectives jaxina carries in all programs together."""
        return sum(program.carried for program in self.programs)

    @property
    def stays(self) -> dict[str, int]:
        """How many collectives of all programs stay with XLA, by reason."""
        counts: collections.Counter[str] = collections.Counter()
        for program in self.programs:
            for one in program.stays:
                counts[one.why] += one.number
        return dict(counts)

    def __str__(self) -> str:
        return "\n".join(map(str, self.programs)) or "no program with collectives has been compiled"


_lock = threading.Lock()
_programs: list[tuple[Program, frozenset[int]]] = []  # each with the identities under which the engine counts its sums
_described: dict[int, str] = {}  # the collectives of jaxina's custom calls, by their identities
_MOST_COLLECTIVES = 3  # that the description of a program names
_strict = False


def report() -> Report:
    """Tells what jaxina carries, and what stays with XLA and why.

    It covers all programs with collectives that this process has compiled for several devices while a job was running,
    since its first `jaxina.init`. It may be called at any time, after `jaxina.shutdown` too.

    Returns:
      A report, which prints as one line per program.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> import jaxina
      >>> from jax.sharding import Mesh, PartitionSpec as P
      >>> jax.config.update("jax_num_cpu_devices", 4)
      >>> def norm(x):
      ...     return jnp.sqrt(jax.lax.psum(jnp.sum(x**2), "workers"))
      >>> with jaxina.init():
      ...     mesh = Mesh(jax.devices(), ("workers",))
      ...     value = jax.jit(jax.shard_map(norm, mesh=mesh, in_specs=P("workers"), out_specs=P()))(jnp.ones(16))
      >>> program = jaxina.report().programs[-1]
      >>> program.name, program.carried, program.tensors, program.stays
      ('jit_norm', 1, 1, ())
    """
    counts = _native.sum_counts()
    with _lock:
        return Report(
            tuple(_counted(program, [counts.get(name, (0, 0)) for name in names]) for program, names in _programs)
        )


def rounded_to_zero() -> int:
    """How many numbers were rounded to zero in all sums of this process so far; see `Program.rounded_to_zero`."""
    return sum(lost for _, lost in _native.sum_counts().values())


def _counted(program: Program, counts: list[tuple[int, int]]) -> Program:
    floats, lost = (sum(column) for column in zip((0, 0), *counts, strict=True))
    return dataclasses.replace(program, floats=floats, rounded_to_zero=lost)


def be_strict(strict: bool) -> None:
    """Sets whether `add_program` refuses a program that has a sum with XLA outside ``jaxina.collectives(False)``."""
    global _strict
    _strict = strict


def add_program(
    text: Callable[[], str],
    targets: frozenset[str],
    routed: frozenset[str],
    why_closed: str | None,
    identity: Callable[[], int],
) -> None:
    """Adds a compiled program to the report.

    Args:
      text: returns the program's optimized HLO module as text.
      targets: the targets of jaxina's custom calls.
      routed: the kinds of XLA's own collectives that XLA hands to jaxina; empty if it hands none over.
      why_closed: why `routed` is empty, None if it is not.
      identity: returns the identity under which the engine counts the program's `routed` collectives.

    Raises:
      NotCarriedError: a sum stays with XLA outside ``jaxina.collectives(False)``, and `be_strict(True)` was called.
    """
    try:
        found = text()
    except RuntimeError as error:  # some backends do not hand out their modules
        _log.info("a compiled program cannot be read, and is not in the report: %s", error)
        return
    program, names = _read(found, targets, routed, why_closed)
    called = {one.identity: f"{one} of {program.name}" for one in _hlo.collectives(found, targets) if one.identity}
    if not program.carried and not program.stays:
        return
    with _lock:
        _programs.append((program, frozenset(names) | ({identity()} if routed else set())))
        _described.update(called)
    _native.name_sums(list(called.items()))
    _log.info("%s", program)
    if _strict and any(one.sums and one.why != OFF for one in program.stays):
        raise NotCarriedError(f"init(strict=True) refuses a program with a sum that stays with XLA: {program}")


def described(identity: int) -> str:
    """What the collective with this identity is, in words."""
    with _lock:
        return _described.get(identity, "a sum that XLA inserted")


def described_program(name: str, found: Sequence[_hlo.Collective]) -> str:
    """What a program with this name and XLA's own collectives is, in words."""
    more = f" and {len(found) - _MOST_COLLECTIVES} more" if len(found) > _MOST_COLLECTIVES else ""
    return f"{'; '.join(map(str, found[:_MOST_COLLECTIVES]))}{more} of {name}"


def name(text: str) -> str:
    """XLA's name for a program; `text` is its optimized HLO module."""
    found = _NAME.search(text)
    return found.group(1) if found else "?"


def says_off(text: str) -> bool:
    """Whether the program's sums are to stay with XLA by ``jaxina.collectives(False)``; `text` is its optimized HLO
    module."""
    return OFF in (_reasons(text) or "").split(SEPARATOR)


def _reasons(text: str) -> str | None:
    found = _REASONS.search(text)
    return found.group(1) if found else None


def _read(
    text: str, targets: frozenset[str], routed: frozenset[str], why_closed: str | None
) -> tuple[Program, set[int]]:
    asked_for = _reasons(text) or UNKNOWN
    off = says_off(text)
    carried = tensors = 0
    names: set[int] = set()  # the identities of jaxina's custom calls
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
            asked = bool(one.made_of) and _ASKED_FOR.issuperset(one.made_of)
            partitioner = OFF if off else f"{PARTITIONER}{why_closed}"
            why = SUMS_NOTHING if not one.sums else asked_for if asked else partitioner
            stays[one.kind, why, one.sums] += 1
    program = Program(
        name(text),
        carried,
        tensors,
        tuple(Stays(kind, number, why, sums) for (kind, why, sums), number in stays.items()),
    )
    return program, names
