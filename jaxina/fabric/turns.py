"""The turns of a model's updates, and what has come for them."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence

from jaxina.errors import InvalidArgumentError, JobRejectedError, MismatchError
from jaxina.fabric.model import Vector
from jaxina.fabric.recent_names import RecentNames


@dataclasses.dataclass(frozen=True, slots=True)
class Expected:
    """An update that has a turn.

    Attributes:
      name: of the update.
      version: of the model that it was computed from.
      size: bytes, as it is sent alone.
      norm: a bound on the length of the step that it makes.
    """

    name: int
    version: int
    size: int
    norm: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Arrived:
    """One update, or a sum, that has come.

    Attributes:
      names: in the order of their turns.
      total: float32[sums * elements].
      payload: as it was sent, for the log.
      is_sum: whether that is a sum, not one update in the compressor's bytes.
    """

    names: tuple[int, ...]
    total: Vector
    payload: bytes
    is_sum: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Commit:
    """What is added to the model now.

    Attributes:
      arrived: what.
      turns: the turns that this takes, with those of updates that are lost.
      committed: for each of the turns, whether it is committed.
    """

    arrived: Arrived
    committed: tuple[bool, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Lost:
    """A turn whose update did not come."""

    name: int


@dataclasses.dataclass(slots=True)
class Turn:
    """A turn that is not decided yet."""

    expected: Expected
    arrived: Arrived | None = None
    gone: bool = False  # nobody can send it any more


class Turns:
    """The turns from the next on. Each gets its update once, however often it is sent.

    Args:
      first: the number of the next turn, which is the model's version.
    """

    def __init__(self, first: int = 0) -> None:
        self.next = first
        self._turns: collections.deque[Turn] = collections.deque()
        self._by_name: dict[int, Turn] = {}
        self._known = RecentNames()  # of decided updates

    @property
    def planned(self) -> int:
        """The number of the first turn that is not planned yet."""
        return self.next + len(self._turns)

    def plan(self, first: int, expected: Sequence[Expected]) -> None:
        """The scheduler has planned turns. Those that are decided already are left out.

        Raises:
          MismatchError: turns in between are missing.
        """
        if first > self.planned:
            raise MismatchError(f"turn {first} is planned after turn {self.planned - 1}: turns are missing")
        for one in expected[max(0, self.planned - first) :]:
            turn = Turn(one)
            self._turns.append(turn)
            self._by_name[one.name] = turn

    def knows(self, names: Sequence[int]) -> bool:
        """Whether all of the updates have, or had, a turn."""
        return all(name in self._by_name or name in self._known for name in names)

    def check(self, names: Sequence[int], version: int, size: int, sum_size: int | None) -> None:
        """Checks whether a frame may come.

        Args:
          names: of its updates.
          version: what it says of its version.
          size: bytes of its payload.
          sum_size: bytes of any sum. None: it is no sum.

        Raises:
          JobRejectedError: an update of it has no turn, or has come already.
          MismatchError: the version is not that of the plan.
          InvalidArgumentError: it has another size, or another order.
        """
        for name in names:
            if name in self._known:
                raise JobRejectedError(f"the turn of update {name:#x} is over: it is a duplicate, or too late")
            if name not in self._by_name:
                raise JobRejectedError(f"no update {name:#x} is planned here")
            if self._by_name[name].arrived is not None:
                raise JobRejectedError(f"update {name:#x} has come already: it is a duplicate")
        turns = [self._by_name[name] for name in names]
        planned = max(turn.expected.version for turn in turns)
        if version != planned:
            raise MismatchError(f"update {names[0]:#x} says that it is of version {version}, and the plan {planned}")
        due = turns[0].expected.size if sum_size is None else sum_size
        if size != due:
            raise InvalidArgumentError(f"update {names[0]:#x} has {size} bytes, and the plan {due}")
        places = self._places(names)
        if places != sorted(places):
            raise InvalidArgumentError("the updates of a sum are not in the order of their turns")

    def abandon(self, names: Sequence[int]) -> None:
        """Nobody can send these updates any more. Those that have come stay."""
        for name in names:
            if (turn := self._by_name.get(name)) is not None:
                turn.gone = True

    def _places(self, names: Sequence[int]) -> list[int]:
        """The updates' places among the turns that are not decided."""
        place = {turn.expected.name: i for i, turn in enumerate(self._turns)}
        return [place[name] for name in names]

    def _pop(self) -> Turn:
        """Decides the next turn."""
        turn = self._turns.popleft()
        name = turn.expected.name
        del self._by_name[name]
        self._known.add(name)
        self.next += 1
        return turn
