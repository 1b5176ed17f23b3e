"""What a replica commits: what the server has, in the same order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jaxina.errors import JobRejectedError
from jaxina.fabric.turns import Arrived, Commit, Lost, Turns


class Follower(Turns):
    """A replica's turns. It gets each update alone, so that it can leave out any that the server has lost.

    Args:
      first: the number of the next turn.
    """

    def __init__(self, first: int = 0) -> None:
        super().__init__(first)
        self._verdicts: list[bool] = []  # of the server, from the next turn on: whether it has committed it

    @property
    def judged(self) -> int:
        """The first turn of which the server's decision is not known."""
        return self.next + len(self._verdicts)

    @property
    def received(self) -> int:
        """The first turn whose update has not come, and may be needed."""
        for place, turn in enumerate(self._turns):
            lost = place < len(self._verdicts) and not self._verdicts[place]
            if turn.arrived is None and not lost:
                return self.next + place
        return self.planned

    @property
    def behind(self) -> bool:
        """Whether the server has committed the next update, and nobody can send it here any more."""
        return bool(self._verdicts and self._verdicts[0] and self._turns[0].gone and self._turns[0].arrived is None)

    def arrive(self, arrived: Arrived) -> None:
        """A frame that `check` allowed has come whole.

        Raises:
          JobRejectedError: the same update came first by another connection, or is over.
        """
        (name,) = arrived.names
        turn = self._by_name.get(name)
        if turn is None or turn.arrived is not None:
            raise JobRejectedError(f"update {name:#x} has come by another way: it is a duplicate")
        turn.arrived = arrived

    def judge(self, committed: Sequence[bool]) -> None:
        """The server has decided on the next turns of its own."""
        self._verdicts += committed
        assert self.judged <= self.planned, "a verdict on a turn that is not planned"

    def decide(self) -> Iterator[Commit | Lost]:
        """Follows the server as far as updates have come, in order."""
        while self._verdicts:
            turn = self._turns[0]
            if self._verdicts[0] and turn.arrived is None:
                return
            committed = self._verdicts.pop(0)
            self._pop()
            if committed:
                assert turn.arrived is not None
                yield Commit(turn.arrived, (True,))
            else:
                yield Lost(turn.expected.name)

    def load(self, version: int) -> None:
        """The model is now the server's of this version: all turns before it are over. They must be judged, so that a
        replica that takes over knows from which turn on its own decisions count."""
        assert self.next <= version <= self.judged, "a model with turns that are not judged, or without decided ones"
        del self._verdicts[: version - self.next]
        while self.next < version:
            self._pop()

    def take_over(self) -> Iterator[Commit | Lost]:
        """The server is lost: decides all turns that are planned. What has not come is lost, even if the server had
        committed it."""
        while self._turns:
            verdict = self._verdicts.pop(0) if self._verdicts else True
            turn = self._pop()
            if verdict and turn.arrived is not None:
                yield Commit(turn.arrived, (True,))
            else:
                yield Lost(turn.expected.name)
