"""What a server commits, and in which order: that of the plan, whatever comes first."""

from __future__ import annotations

import collections
from collections.abc import Iterator

from jaxina.errors import JobRejectedError
from jaxina.fabric.divergence import Lead
from jaxina.fabric.turns import Arrived, Commit, Lost, Turn, Turns


class Ledger(Turns):
    """A server's turns.

    A turn whose update is late makes all after it wait. One whose update cannot come any more is lost at its turn. If
    there is a replica, a commit also waits until the models are within the bound after it, by what the replica has
    told: so the bound holds however late transfers are. The plan only sees to it that this takes no time.

    Args:
      first: the number of the next turn.
      momentum: of the optimizer.
      bound: on the divergence of the models, in the units of the updates' norms. None: there is no replica.
    """

    def __init__(self, first: int = 0, momentum: float = 0.0, bound: float | None = None) -> None:
        super().__init__(first)
        self._momentum = momentum
        self._bound = bound
        self._replica = first  # the replica has all before this turn
        self._history = 0.0  # a bound on the length of h there
        self._ahead: collections.deque[tuple[int, float]] = collections.deque()  # committed here and not there

    @property
    def divergence(self) -> float:
        """A bound on the distance between the models."""
        return Lead(self._momentum, self._history, (norm for _, norm in self._ahead)).divergence

    def arrive(self, arrived: Arrived) -> None:
        """A frame that `check` allowed has come whole.

        Raises:
          JobRejectedError: another frame came first that has an update of it, or one between its updates.
        """
        for name in arrived.names:
            turn = self._by_name.get(name)
            if turn is None or turn.arrived is not None:
                raise JobRejectedError(f"update {name:#x} has come by another way: it is a duplicate")
        places = self._places(arrived.names)
        between = [self._turns[i] for i in range(places[0], places[-1] + 1)]
        if any(turn.arrived is not None for turn in between):
            raise JobRejectedError("an update between those of the sum has come by another way")
        for turn in between:
            if turn.expected.name in arrived.names:
                turn.arrived = arrived
            else:
                turn.gone = True  # the aggregator did not get it

    def stop_waiting_for_replica(self) -> None:
        """There is no replica any more."""
        self._bound = None

    def replica_has(self, turns: int) -> None:
        """The replica has, or needs not, all before this turn."""
        self._replica = max(self._replica, turns)
        self._trim()

    def decide(self) -> Iterator[Commit | Lost]:
        """Decides all turns that can be decided now, in order."""
        while self._turns:
            turn = self._turns[0]
            if turn.arrived is None:
                if not turn.gone:
                    return
                yield Lost(self._pop().expected.name)
                continue
            arrived = turn.arrived
            span = [self._turns[i] for i in range(self._places(arrived.names[-1:])[0] + 1)]
            if not self._within_bound(span):
                if not any(one.gone for one in span if one.arrived is arrived):
                    return
                # The replica cannot get all of it, so the server must not have it either.
                for one in span:
                    one.arrived, one.gone = None, True
                continue
            committed = []
            for one in span:
                committed.append(one.arrived is arrived)
                if committed[-1]:
                    self._ahead.append((self.next, one.expected.norm))
                self._pop()
            self._trim()
            yield Commit(arrived, tuple(committed))

    def _within_bound(self, span: list[Turn]) -> bool:
        """Whether the models are within the bound once these turns are committed."""
        if self._bound is None:
            return True
        norms = [norm for _, norm in self._ahead]
        for place, turn in enumerate(span):
            if turn.arrived is not None and self.next + place >= self._replica:
                norms.append(turn.expected.norm)
        return Lead(self._momentum, self._history, norms).divergence <= self._bound

    def _trim(self) -> None:
        while self._ahead and self._ahead[0][0] < self._replica:
            self._history = self._momentum * self._history + self._ahead.popleft()[1]
