"""The turns that are planned, as the daemon follows them."""

from __future__ import annotations

import collections
import dataclasses

from jaxina.fabric.updates import Update


@dataclasses.dataclass(slots=True)
class Planned:
    """An update with a turn.

    Attributes:
      update: it.
      turn: its number.
      end: when the server has it by plan, in nanoseconds.
      group: the sum that it comes in; 0: it comes alone.
      aggregator: the host that adds it, if any.
      committed: what the server has decided; None: not yet.
      copied: when the replica has it by plan, in nanoseconds; None: it is not planned to be sent there yet.
    """

    update: Update
    turn: int
    end: int
    group: int = 0
    aggregator: str | None = None
    committed: bool | None = None
    copied: int | None = None


class PlannedTurns:
    """The turns of a job, from the first on that somebody may still need.

    Attributes:
      decided: the first turn that the server has not decided.
      replicated: the first turn that the replica may still need.
    """

    def __init__(self) -> None:
        self.decided = 0
        self.replicated = 0
        self._first = 0
        self._turns: collections.deque[Planned] = collections.deque()
        self._by_name: dict[int, Planned] = {}

    @property
    def planned(self) -> int:
        """The first turn that is not planned."""
        return self._first + len(self._turns)

    def add(self, planned: Planned) -> None:
        """The next turn."""
        assert planned.turn == self.planned, "turns are planned in order"
        self._turns.append(planned)
        self._by_name[planned.update.name] = planned

    def find(self, name: int) -> Planned | None:
        """The turn of an update, if somebody may still need it."""
        return self._by_name.get(name)

    def open(self) -> list[Planned]:
        """The turns that the server has not decided."""
        return [self._turns[i] for i in range(self.decided - self._first, len(self._turns))]

    def needed(self) -> list[Planned]:
        """The turns that the server or the replica may still need."""
        return list(self._turns)

    def next_copy(self) -> Planned | None:
        """The next turn of the replica, of those that the server has decided. Only for a job that has a replica."""
        return self._turns[self.replicated - self._first] if self.replicated < self.decided else None

    def decide(self, committed: bool) -> Planned:
        """The server has decided on the next turn."""
        turn = self._turns[self.decided - self._first]
        turn.committed = committed
        self.decided += 1
        return turn

    def release(self, replica: bool) -> list[Planned]:
        """Forgets the turns that nobody needs any more, and returns them."""
        end = min(self.decided, self.replicated) if replica else self.decided
        gone = []
        while self._first < end:
            turn = self._turns.popleft()
            del self._by_name[turn.update.name]
            gone.append(turn)
            self._first += 1
        return gone
