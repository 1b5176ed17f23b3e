"""What happens when a host is gone or a transfer is late: another way, or no way at all, but never two commits."""

from __future__ import annotations

from jaxina.fabric.calendar import NANOSECONDS
from jaxina.fabric.service import fabric_pb2 as pb
from jaxina.fabric.service.carrier import Carrier
from jaxina.fabric.service.hosts import Host, Hosts
from jaxina.fabric.service.planned import PlannedTurns
from jaxina.fabric.service.settings import REPLICA


class _Watch:
    """Whether the next turn is late: not there within the patience since it became the next, or was to be there."""

    def __init__(self, patience: int) -> None:
        self._patience = patience  # nanoseconds
        self._turn = -1
        self._since = 0

    def finds_late(self, turn: int, end: int, now: int) -> bool:
        """Looks at the next turn, which is to be there at `end`. Finds it late once in each patience."""
        if turn != self._turn:
            self._turn, self._since = turn, max(now, end)
        if now - self._since <= self._patience:
            return False
        self._since = now
        return True


class Repairs:
    """Looks after the turns that are planned.

    An update may be sent by several ways at once then. The server takes each only once (`jaxina.fabric.turns`).

    Args:
      hosts: who is there.
      turns: what is planned.
      carrier: has updates sent.
      patience: seconds that the next turn may be late.
    """

    def __init__(self, hosts: Hosts, turns: PlannedTurns, carrier: Carrier, patience: float) -> None:
        self._hosts = hosts
        self._turns = turns
        self._carrier = carrier
        self._server_turn = _Watch(int(patience * NANOSECONDS))
        self._replica_turn = _Watch(int(patience * NANOSECONDS))

    def lose_worker(self, host: Host, now: int) -> list[int]:
        """A worker is gone. Returns the names of its updates that somebody still needed."""
        names = [turn.update.name for turn in self._turns.needed() if turn.update.name >> 32 == host.number]
        self._abandon(names)
        for group in dict.fromkeys(t.group for t in self._turns.open() if t.aggregator == host.name):
            self._ungroup(group, now)
        return names

    def lose_server(self) -> None:
        """The replica is the server. It decides at once on all that is planned, so nothing is summed any more."""
        for group, aggregator in {turn.group: turn.aggregator for turn in self._turns.open()}.items():
            if aggregator is not None:
                self._hosts.tell(self._hosts.find(aggregator), ungroup=pb.Ungroup(group=group))
        self._hosts.tell(self._hosts.find(self._carrier.server), promote=pb.Promote())

    def look_for_late_turn(self, now: int) -> None:
        """If the next turn is late, the updates of its sum are sent alone. If it still is, its update is given up."""
        turn = next(iter(self._turns.open()), None)
        if turn is None or not self._server_turn.finds_late(turn.turn, turn.end, now):
            return
        if turn.group:
            self._ungroup(turn.group, now)
        else:
            self._abandon([turn.update.name])

    def look_for_late_copy(self, now: int) -> None:
        """If the replica's next update is late, and the server has it, the replica waits for it no longer. If it does
        not have it, it asks for the server's model. Nothing else would tell it that a worker has given up sending, or
        that the model for which it asked does not come."""
        turn = None if self._carrier.replica is None else self._turns.next_copy()
        if turn is None or not turn.committed:
            return
        due = turn.copied
        if due is None:
            if self._hosts.owner(turn.update.name) is not None:
                return  # its turn to be sent has not come
            due = turn.end
        if not self._replica_turn.finds_late(turn.turn, due, now):
            return
        self._hosts.tell(self._hosts.find(REPLICA), abandon=pb.Abandon(names=[turn.update.name]))

    def _abandon(self, names: list[int]) -> None:
        """Nobody can send these updates any more, or nobody shall wait for them any more. Whoever has one keeps it."""
        to: dict[str, list[int]] = {}
        for name in names:
            turn = self._turns.find(name)
            assert turn is not None
            # The aggregator knows whether it has the update, and its sum says so.
            here = turn.aggregator if turn.group else self._carrier.server
            for place in (here, self._carrier.replica):
                if place is not None:
                    to.setdefault(place, []).append(name)
        for place, theirs in to.items():
            self._hosts.tell(self._hosts.find(place), abandon=pb.Abandon(names=theirs))

    def _ungroup(self, group: int, now: int) -> None:
        """The updates of a sum go to the server alone, as far as their workers are there."""
        gone = []
        parts = [turn for turn in self._turns.open() if turn.group == group]
        for aggregator in {turn.aggregator for turn in parts if turn.aggregator is not None}:
            self._hosts.tell(self._hosts.find(aggregator), ungroup=pb.Ungroup(group=group))
        for turn in parts:
            turn.group, turn.aggregator = 0, None
            if self._hosts.owner(turn.update.name) is None:
                gone.append(turn.update.name)
            else:
                self._carrier.redirect(turn.update, now)
        if gone:
            self._abandon(gone)
