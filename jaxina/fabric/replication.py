"""What a replica gets, so that it never falls too far behind the server (section 5.3)."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from jaxina.errors import InvalidArgumentError
from jaxina.fabric.aggregation import SumSize, aggregate
from jaxina.fabric.calendar import Calendar
from jaxina.fabric.divergence import Lead
from jaxina.fabric.network import Network
from jaxina.fabric.plans import Group
from jaxina.fabric.updates import Update


@dataclasses.dataclass(frozen=True, slots=True)
class Replicated:
    """A batch with its replication.

    Attributes:
      server: the server's groups. From the first that had to wait for the replica on, their last transfers are later.
      replica: the groups that the replica gets during this batch.
      held: updates of the batch that may not be committed yet, because the replica cannot follow. They stay ready.
      calendar: what is free, with all of these reserved.
    """

    server: list[Group]
    replica: list[Group]
    held: list[Update]
    calendar: Calendar


class Replica:
    """What the scheduler knows of the replica.

    The bound is on what is lost if the server is: the replica may be behind the server, not the other way round. An
    update that the replica has before the server has committed it is one that comes next anyway, in the same order.
    The paper looks at the end of a batch only. Here, the bound holds at each commit. A batch without updates lets the
    replica catch up by one group at a time, which the paper leaves open. What is on its way to the replica counts as
    missing there until it arrives: it may arrive after the next batch's commits.

    Args:
      host: where it is.
      bound: Div_max, in the units of the updates' norms. Positive.
      momentum: of the server's optimizer. At least 0, below 1.

    Raises:
      InvalidArgumentError: a number is out of range.
    """

    def __init__(self, host: str, bound: float, momentum: float = 0.0) -> None:
        if not bound > 0:
            raise InvalidArgumentError(f"a divergence bound of {bound} lets no update through: it must be positive")
        self.host = host
        self._bound = bound
        self._momentum = momentum
        self._history = 0.0  # a bound on the length of h at the replica
        self._flying: list[tuple[Update, int]] = []  # what is planned for the replica, and when it has it
        self._pending: list[Update] = []

    @property
    def pending(self) -> tuple[Update, ...]:
        """The updates that the server has, or gets by plan, and the replica has not got."""
        return tuple(self._pending)

    def divergence(self) -> float:
        """The bound on the distance between the models when all that is planned has arrived."""
        lead = self._lead()
        for _ in self._flying:
            lead.replicate()
        return lead.divergence

    def forget(self, names: Collection[int]) -> None:
        """These updates cannot be sent any more. If the server has one of them, the replica must get its model."""
        self._pending = [update for update in self._pending if update.name not in names]
        self._flying = [(update, end) for update, end in self._flying if update.name not in names]

    def received(self, names: Collection[int]) -> None:
        """The replica says that it has these updates, by whatever way: the server's model may have brought them. Nobody
        needs to send them any more."""
        for update in (*(update for update, _ in self._flying), *self._pending):
            if update.name in names:
                self._history = self._momentum * self._history + update.norm
        self.forget(names)

    def replicate(
        self,
        network: Network,
        calendar: Calendar,
        groups: Sequence[Group],
        aggregators: Sequence[str],
        now: int,
        sum_size: SumSize,
    ) -> Replicated:
        """Plans the replica's transfers beside the server's.

        Args:
          network: gives the paths.
          calendar: what is free, with the server's groups reserved. It is not changed.
          groups: the server's, in order.
          aggregators: the replica's own.
          now: nanoseconds.
          sum_size: how large a sum is.
        """
        self._land(now)
        order = [*self._pending, *(u for g in groups for u in g.updates)]
        tentative, free = self._tentative(network, calendar, order, aggregators, now, sum_size)
        flying = [end for _, end in self._flying]
        later = _arrivals(tentative, flying[-1] if flying else 0)
        arrivals = [0, *flying, *later]  # when the replica has so many of all that it has not got yet
        server: list[Group] = []
        lead = self._lead()
        time = 0
        for place, group in enumerate(groups):
            for update in group.updates:
                lead.commit(update.norm)
            while lead.divergence > self._bound:
                lead.replicate()
            needed = len(flying) + len(self._pending) + sum(len(g.updates) for g in groups[: place + 1]) - len(lead)
            if needed >= len(arrivals):
                return self._hold(network, calendar, groups, place, aggregators, now, sum_size)
            in_time = arrivals[needed] <= max(time, group.end)
            server.append(group if in_time else _later(free, group, arrivals[needed]))
            time = max(time, server[-1].end)
        if not groups and tentative and _begin(tentative[0]) <= now:
            # Nothing else is planned, so the replica catches up, one group after the other.
            time = later[len(tentative[0].updates) - 1]
        frozen: list[Group] = []
        got = 0
        for group in tentative:
            if later[got + len(group.updates) - 1] > time:
                _release(free, group)
            else:
                frozen.append(group)
                got += len(group.updates)
        self._flying += zip(order[:got], later[:got], strict=True)
        self._pending = order[got:]
        return Replicated(server, frozen, [], free)

    def _land(self, now: int) -> None:
        """The replica has what has arrived by now."""
        while self._flying and self._flying[0][1] <= now:
            update, _ = self._flying.pop(0)
            self._history = self._momentum * self._history + update.norm

    def _lead(self) -> Lead:
        """What the server has, or gets by plan, and the replica has not got yet."""
        flying = [update for update, _ in self._flying]
        return Lead(self._momentum, self._history, (u.norm for u in (*flying, *self._pending)))

    def _hold(
        self,
        network: Network,
        calendar: Calendar,
        groups: Sequence[Group],
        place: int,
        aggregators: Sequence[str],
        now: int,
        sum_size: SumSize,
    ) -> Replicated:
        """The same without the groups from a place on, which the replica can never follow."""
        without = calendar.fork()
        for group in groups[place:]:
            _release(without, group)
        done = self.replicate(network, without, groups[:place], aggregators, now, sum_size)
        return dataclasses.replace(done, held=[u for g in groups[place:] for u in g.updates])

    def _tentative(
        self,
        network: Network,
        calendar: Calendar,
        order: Sequence[Update],
        aggregators: Sequence[str],
        now: int,
        sum_size: SumSize,
    ) -> tuple[list[Group], Calendar]:
        """All that the replica has not got, sent to it: up to the first update that has no path."""
        reachable = list(order)
        for i, update in enumerate(order):
            path = network.path(update.worker, self.host)
            if path and min(calendar.rate(link) for link in path) == 0:
                reachable = reachable[:i]
                break
        return aggregate(network, calendar, self.host, reachable, aggregators, now, sum_size)


def _arrivals(groups: Sequence[Group], time: int) -> list[int]:
    """When the replica has the first 1, 2, ... updates: in order, whatever arrives first, and all before at `time`."""
    times = []
    for group in groups:
        time = max(time, group.end)
        times += [time] * len(group.updates)
    return times


def _begin(group: Group) -> int:
    """When the first byte of a group is sent."""
    pieces = [piece for transfer in group.transfers for piece in transfer.reservation.pieces]
    return min((begin for begin, _, _ in pieces), default=0)


def _release(calendar: Calendar, group: Group) -> None:
    for transfer in group.transfers:
        calendar.release(transfer.reservation)
    if group.last is not None:
        calendar.release(group.last)


def _later(calendar: Calendar, group: Group, start: int) -> Group:
    """The group with a last transfer that begins no earlier than `start`."""
    old = group.transfers[-1].reservation if group.last is None else group.last
    calendar.release(old)
    new = calendar.reserve(old.path, old.size, max(old.start, start))
    assert new is not None, "a link that had a rate has none"
    if group.last is not None:
        return dataclasses.replace(group, last=new)
    return dataclasses.replace(group, transfers=(dataclasses.replace(group.transfers[-1], reservation=new),))
