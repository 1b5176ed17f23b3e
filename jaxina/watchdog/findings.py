"""Who waits for whom, found from what the processes tell. A pure function of their states."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from jaxina.watchdog.state import State, Wait

_MOST_RANKS = 12  # that a list of ranks names


@dataclasses.dataclass(frozen=True)
class Findings:
    """Who is late.

    Attributes:
      late: the processes that others wait for and that wait for nobody themselves. If all wait in a circle, the circle.
        Empty if nobody is late.
      wait: what the others wait in.
      waiting: the processes that wait for those that are late, and for how many seconds.
      circle: whether those that are late wait for each other.
      others: processes that run something else at the same place, with what they run.
    """

    late: tuple[int, ...]
    wait: Wait
    waiting: dict[int, float]
    circle: bool = False
    others: dict[int, str] = dataclasses.field(default_factory=dict)

    @property
    def key(self) -> tuple[tuple[int, ...], str, int]:
        """What they find, without how long it has lasted."""
        return self.late, *self.wait.key


def find(wait: Wait, states: Mapping[int, State]) -> Findings:
    """Finds who is late.

    Args:
      wait: what a process waits in.
      states: what the processes told. One that is missing did not answer.
    """
    late = _late(wait, states)
    if not late:
        return Findings((), wait, _waiting(wait, states), others=_others(wait, states))
    # Those that are late may wait themselves, in another stream. So go on until those that wait for nobody.
    blamed: dict[int, Wait] = dict.fromkeys(late, wait)
    seen: set[int] = set()
    roots: dict[int, Wait] = {}
    while blamed:
        rank, where = blamed.popitem()
        seen.add(rank)
        waits = states[rank].waits if rank in states else ()
        further = {other: one for one in waits for other in _late(one, states) if other != rank}
        if not further:
            roots[rank] = where
        blamed.update({other: one for other, one in further.items() if other not in seen})
    if not roots:
        return Findings(tuple(sorted(seen)), wait, _waiting(wait, states), circle=True)
    first = min(roots)
    where = roots[first]
    names = tuple(sorted(rank for rank, one in roots.items() if one.key == where.key))
    return Findings(names, where, _waiting(where, states), others=_others(where, states))


def _late(wait: Wait, states: Mapping[int, State]) -> list[int]:
    return [
        rank
        for rank in wait.members
        if rank not in states or states[rank].gone or states[rank].entered.get(wait.stream, 0) < wait.number
    ]


def _waiting(wait: Wait, states: Mapping[int, State]) -> dict[int, float]:
    return {
        rank: one.seconds
        for rank in wait.members
        if rank in states
        for one in states[rank].waits
        if one.key == wait.key
    }


def _others(wait: Wait, states: Mapping[int, State]) -> dict[int, str]:
    """The members that are in the same place of the stream, but in something else."""
    return {
        rank: one.what
        for rank in wait.members
        if rank in states
        for one in states[rank].waits
        if one.key == wait.key and one.what != wait.what
    }


def text(findings: Findings, states: Mapping[int, State], ended: Iterable[int] = ()) -> str:
    """Says who is late, in what, and what those that are late are doing.

    Args:
      findings: what was found.
      states: what the processes told.
      ended: the processes that are known to have ended.
    """
    wait = findings.wait
    longest = max([*findings.waiting.values(), wait.seconds])
    if findings.circle:
        head = f"{_named(findings.late)} wait for each other, for {_seconds(longest)}"
    elif findings.late:
        head = (
            f"{_named(findings.late)} {_is(findings.late)} late: {_named(sorted(findings.waiting))} "
            f"{'have' if len(findings.waiting) > 1 else 'has'} waited {_seconds(longest)} in {_place(wait)}"
        )
    else:
        head = (
            f"all of {_named(wait.members)} have entered {_place(wait)}, and it has not finished for "
            f"{_seconds(longest)}. "
            "Look at the network between them, and at what its callbacks do"
        )
    lines = [head]
    lines += [f"  rank {rank} is in something else: {what}" for rank, what in sorted(findings.others.items())]
    shown = findings.late or tuple(sorted(findings.waiting))
    for rank in shown[:_MOST_RANKS]:
        lines += _about(rank, findings, states.get(rank), set(ended))
    if len(shown) > _MOST_RANKS:
        lines.append(f"  and {len(shown) - _MOST_RANKS} more")
    return "\n".join(lines)


def _about(rank: int, findings: Findings, state: State | None, ended: set[int]) -> list[str]:
    if rank in ended or (state is not None and state.gone):
        return [f"  rank {rank} has ended, or called jaxina.shutdown()"]
    if state is None:
        why = "it is stopped, or stays in native code that holds Python's lock, or its host cannot be reached"
        return [f"  rank {rank} does not answer: {why}. Look at it with py-spy or gdb"]
    head = f"  rank {rank} ({state.place})"
    if state.compiling is not None:
        head += f" has compiled a program for {_seconds(state.compiling)}"
    else:
        head += _elsewhere(state)
    lines = [head]
    for stack in state.stacks:
        lines.append(f"    {stack.thread}:")
        lines += [f"      {line}" for line in stack.lines]
    return lines


def _elsewhere(state: State) -> str:
    waits = "; ".join(f"{_place(one)}, for {_seconds(one.seconds)}" for one in state.waits)
    return f" is in {waits or 'no collective'}"


def _place(wait: Wait) -> str:
    return f"{wait.what}, number {wait.number}"


def _named(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    shown = ", ".join(map(str, ranks[:_MOST_RANKS]))
    return f"ranks {shown}" + (f" and {len(ranks) - _MOST_RANKS} more" if len(ranks) > _MOST_RANKS else "")


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"


def _is(ranks: Sequence[int]) -> str:
    return "are" if len(ranks) > 1 else "is"
