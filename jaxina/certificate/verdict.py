"""Compares the hashes: whether each combination gave the bits that it must give. Pure functions."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxina.certificate.combinations import Combination, Suite

Line = dict[str, Any]  # of a worker's file


@dataclasses.dataclass(frozen=True)
class SuiteResult:
    """What the processes of a suite have written, and how it ended.

    Attributes:
      suite: what ran.
      lines: of each process's file, by process.
      error: why it did not get to its end; empty if it did.
      output: what it wrote last, if it did not.
      seconds: how long it took.
    """

    suite: Suite
    lines: Sequence[Sequence[Line]]
    error: str
    output: str
    seconds: float

    def of_kind(self, kind: str) -> list[list[Line]]:
        """The lines of one kind, by process."""
        return [[line for line in lines if line["kind"] == kind] for lines in self.lines]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one combination gave.

    Attributes:
      combination: what ran.
      hashes: of each device's results, by device. They must be equal. Empty if it did not run to its end.
      problem: what is wrong; empty if nothing is.
    """

    combination: Combination
    hashes: tuple[str, ...]
    problem: str


@dataclasses.dataclass(frozen=True)
class Class:
    """The combinations that must give the same bits: those of one width, and of narrow words also of one rounding.

    Attributes:
      bits: of a word.
      layouts: of the combinations, in words.
      hash: what they must give.
      by: what says so: "specification", or "most" if it says nothing of this width.
    """

    bits: int
    layouts: tuple[str, ...]
    hash: str
    by: str


@dataclasses.dataclass(frozen=True)
class Native:
    """What XLA's own collective gave, in all suites of one JAX, layout and order."""

    jax: str
    layout: str
    order: str
    hashes: tuple[str, ...]  # without repetitions


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the results say.

    Attributes:
      outcomes: of all combinations, in order.
      classes: what the combinations had to give.
      native: what XLA gave.
      lost: packets that were dropped, and passes that were sent again, by transport and layout.
    """

    outcomes: Sequence[Outcome]
    classes: Sequence[Class]
    native: Sequence[Native]
    lost: Mapping[tuple[str, str], tuple[int, int]]

    @property
    def problems(self) -> list[Outcome]:
        """The outcomes with which something is wrong."""
        return [outcome for outcome in self.outcomes if outcome.problem]

    def of_class(self, wanted: Class) -> list[Outcome]:
        """The outcomes of its combinations."""
        return [outcome for outcome in self.outcomes if _class_of(outcome.combination, self.classes) is wanted]


def judge(results: Sequence[SuiteResult]) -> Verdict:
    """Judges what the suites have given.

    A combination is good if all devices of all processes have the hash that its class must have, if jaxina carried the
    sums, and, with loss, if packets were lost.
    """
    seen = [(combination, hashes, problem) for result in results for combination, hashes, problem in _seen(result)]
    classes = _classes(results, seen)
    outcomes = [
        Outcome(combination, hashes, problem or _compared(hashes, _class_of(combination, classes)))
        for combination, hashes, problem in seen
    ]
    return Verdict(outcomes, classes, _native(results), _lost(results))


def _class_of(combination: Combination, classes: Sequence[Class]) -> Class:
    layout = str(combination.suite.layout)
    return next(one for one in classes if one.bits == combination.case.bits and layout in one.layouts)


Seen = tuple[Combination, tuple[str, ...], str]


def _seen(result: SuiteResult) -> Iterator[Seen]:
    """Each combination's hashes, and what is wrong with it without looking at them."""
    sums = [{(line["setting"], line["case"]): line for line in lines} for lines in result.of_kind("sum")]
    ends = [{line["setting"]: line["statistics"] for line in lines} for lines in result.of_kind("setting")]
    processes = result.suite.layout.processes
    for combination in result.suite.combinations():
        lines = [of_process[combination.place] for of_process in sums if combination.place in of_process]
        if len(lines) < processes:
            yield combination, (), f"not every process formed the sums: {result.error or 'no reason is known'}"
            continue
        problem = ""
        if not all(line["collectives"] for line in lines):
            problem = "jaxina did not carry the sums"
        elif combination.setting.loss:
            number = combination.place[0]
            statistics = [of_process[number] for of_process in ends if number in of_process]
            if not sum(one["packets_dropped"] for one in statistics):
                problem = "no packet was dropped, so it shows nothing about loss"
        yield combination, tuple(one for line in lines for one in line["hashes"]), problem


def _classes(results: Sequence[SuiteResult], seen: Sequence[Seen]) -> list[Class]:
    """What must be equal, and to what."""
    told: dict[tuple[int, str], set[str]] = collections.defaultdict(set)
    for result in results:
        for lines in result.of_kind("reference"):
            for line in lines:
                told[line["bits"], str(result.suite.layout)].add(line["hash"])
    given: dict[tuple[int, str], collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for combination, hashes, _ in seen:
        given[combination.case.bits, str(combination.suite.layout)].update(hashes)
    of_hash: dict[tuple[int, str, str], list[str]] = {}
    for bits, layout in given:
        if specified := told.get((bits, layout)):
            # If interpreters disagree about the specification, the class has a hash that nothing equals.
            hash_, by = " or ".join(sorted(specified)), "specification"
        else:
            every = sum((one for (width, _), one in given.items() if width == bits), collections.Counter[str]())
            hash_, by = every.most_common(1)[0][0] if every else "", "most"
        of_hash.setdefault((bits, hash_, by), []).append(layout)
    return sorted(
        (Class(bits, tuple(sorted(layouts)), hash_, by) for (bits, hash_, by), layouts in of_hash.items()),
        key=lambda one: (-one.bits, one.layouts),
    )


def _compared(hashes: tuple[str, ...], wanted: Class) -> str:
    wrong = [place for place, one in enumerate(hashes) if one != wanted.hash]
    if not wrong:
        return ""
    given = ", ".join(sorted({hashes[place][:12] for place in wrong}))
    where = "all devices have" if len(wrong) == len(hashes) else f"device {', '.join(map(str, wrong))} has"
    by = "the specification says" if wanted.by == "specification" else "most others of this width have"
    return f"{where} {given}, {by} {wanted.hash[:12]}"


def _native(results: Sequence[SuiteResult]) -> list[Native]:
    found: dict[tuple[str, str, str], dict[str, None]] = {}
    for result in results:
        suite = result.suite
        for lines in result.of_kind("native"):
            for line in lines:
                key = (suite.interpreter.versions["jax"], str(suite.layout), line["order"])
                found.setdefault(key, {}).update(dict.fromkeys(line["hashes"]))
    return [Native(*key, tuple(hashes)) for key, hashes in found.items()]


def _lost(results: Sequence[SuiteResult]) -> dict[tuple[str, str], tuple[int, int]]:
    lost: collections.Counter[tuple[str, str]] = collections.Counter()
    again: collections.Counter[tuple[str, str]] = collections.Counter()
    for result in results:
        for lines in result.of_kind("setting"):
            for line in lines:
                key = (result.suite.settings[line["setting"]].transport, str(result.suite.layout))
                lost[key] += line["statistics"]["packets_dropped"]
                again[key] += line["statistics"]["retransmissions"]
    return {key: (lost[key], again[key]) for key in lost}
