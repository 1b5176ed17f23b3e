"""Which updates are added on their way, and where: Algorithm 3."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from jaxina.fabric.calendar import NANOSECONDS, Calendar
from jaxina.fabric.network import Network
from jaxina.fabric.plans import Group, Transfer
from jaxina.fabric.updates import Update

SumSize = Callable[[Sequence[Update]], int]
"""How many bytes the sum of some updates takes."""

_CASES = 32
"""Up to so many numbers of direct updates, all are tried. Of more, so many, and then more closely around the best."""


def dense_sum_size(updates: Sequence[Update]) -> int:
    """The sum of dense updates is as large as the largest of them."""
    return max(u.size for u in updates)


def aggregate(
    network: Network,
    calendar: Calendar,
    destination: str,
    updates: Sequence[Update],
    aggregators: Sequence[str],
    now: int,
    sum_size: SumSize = dense_sum_size,
) -> tuple[list[Group], Calendar]:
    """Cuts ordered updates into those that go directly and groups that are added on their way.

    The first n updates go directly. Each further group fills while its updates reach the aggregator before the
    destination has all that came before, so that the destination's link is never left waiting. Of the n tried, the one
    with the earliest last arrival is taken; of equals, the one with the earlier mean. The paper tries all. Here, large
    batches try `_CASES` and then those around the best, which takes a tenth of the time.

    Four points are open in the paper. Here, n = 0 means that all are added at one aggregator. A group goes to the first
    aggregator left that can take two updates in time; if there is none, the next update goes directly. When one
    aggregator is left, it may also take all the rest, if that ends earlier. The last group's own transfer counts.

    Args:
      network: gives the paths.
      calendar: what is free. It is not changed.
      destination: the server, or a replica.
      updates: in their order. Each has a path to the destination.
      aggregators: the hosts that may add, one group each, in the order in which they are asked.
      now: nanoseconds.
      sum_size: how large a sum is.

    Returns:
      The groups in order, and a calendar with their reservations.
    """
    if not updates:
        return [], calendar.fork()
    world = _World(network, destination, now, sum_size)
    best = world.directly(_Partial(calendar), updates)
    assert best is not None, "an update without a path reached the aggregation"
    if not aggregators:
        return best.groups, best.calendar
    for aggregator in aggregators:
        best = _better(best, world.last_group(_Partial(calendar), updates, aggregator, best))
    prefixes = [_Partial(calendar)]
    for n in range(1, len(updates)):
        prefix = world.directly(prefixes[-1], updates[n - 1 : n])
        if prefix is None or prefix.end >= best.end:
            break  # what goes directly alone takes as long
        prefixes.append(prefix)
    tried = {0}
    stride = max(1, len(prefixes) // _CASES)
    places = range(1, len(prefixes), stride)
    best_n = 0
    while True:
        for n in places:
            if n not in tried and prefixes[n].end < best.end:
                tried.add(n)
                plan = world.groups(prefixes[n], updates[n:], aggregators, best)
                if plan is not None and _better(best, plan) is plan:
                    best, best_n = plan, n
        if stride == 1:
            return best.groups, best.calendar
        near = stride
        stride = max(1, stride // 4)
        places = range(max(1, best_n - near + 1), min(len(prefixes), best_n + near), stride)


class _Partial:
    """A plan that is not whole yet, with the calendar that it leaves."""

    def __init__(self, calendar: Calendar, groups: Sequence[Group] = (), end: int = 0, total: int = 0) -> None:
        self.calendar = calendar
        self.groups = list(groups)
        self.end = end  # when the destination has all
        self.total = total  # the sum of all updates' ends

    def with_group(self, calendar: Calendar, group: Group) -> _Partial:
        end = max(self.end, group.end)
        return _Partial(calendar, [*self.groups, group], end, self.total + end * len(group.transfers))


def _better(one: _Partial, other: _Partial | None) -> _Partial:
    return one if other is None or (one.end, one.total) <= (other.end, other.total) else other


@dataclasses.dataclass(frozen=True)
class _World:
    network: Network
    destination: str
    now: int
    sum_size: SumSize

    def directly(self, plan: _Partial, updates: Sequence[Update]) -> _Partial | None:
        """The plan with each of the updates sent to the destination."""
        for update in updates:
            calendar = plan.calendar.fork()
            transfer = self._send(calendar, update, self.destination)
            if transfer is None:
                return None
            plan = plan.with_group(calendar, Group(None, (transfer,)))
        return plan

    def groups(
        self, plan: _Partial, updates: Sequence[Update], aggregators: Sequence[str], best: _Partial
    ) -> _Partial | None:
        """The plan with all of the updates in groups. None if it cannot be better than the best."""
        left = list(aggregators)
        rest_at_once: _Partial | None = None
        done = 0
        while done < len(updates):
            if len(left) == 1 and rest_at_once is None:
                rest_at_once = self.last_group(plan, updates[done:], left[0], best)
                best = _better(best, rest_at_once)
            following = self._group(plan, updates[done:], left) or self.directly(plan, updates[done : done + 1])
            if following is None or following.end >= best.end:
                return rest_at_once
            plan, done = following, done + len(following.groups[-1].transfers)
            if plan.groups[-1].aggregator is not None:
                left.remove(plan.groups[-1].aggregator)
        return plan

    def _group(self, plan: _Partial, updates: Sequence[Update], aggregators: Sequence[str]) -> _Partial | None:
        """The plan with one more group: all that reach an aggregator before the destination has what came before."""
        for aggregator in aggregators:
            calendar = plan.calendar.fork()
            group: list[Transfer] = []
            for update in updates:
                transfer = self._send(calendar, update, aggregator, plan.end)
                if transfer is None:
                    break
                group.append(transfer)
            if len(group) > 1:
                return self._close(plan, calendar, group, aggregator)
        return None

    def last_group(self, plan: _Partial, updates: Sequence[Update], aggregator: str, best: _Partial) -> _Partial | None:
        """The plan with all of the updates in one group. None if it cannot be better than the best."""
        if len(updates) == 1:
            return self.directly(plan, updates)
        path = self.network.path(updates[0].worker, aggregator) or self.network.path(updates[-1].worker, aggregator)
        if path:
            fastest = plan.calendar.rate(path[-1])
            received = sum(u.size for u in updates if u.worker != aggregator)
            if fastest == 0 or self.now + received * NANOSECONDS // fastest > best.end:
                return None
        calendar = plan.calendar.fork()
        group = []
        for update in updates:
            transfer = self._send(calendar, update, aggregator, best.end)
            if transfer is None:
                return None
            group.append(transfer)
        return self._close(plan, calendar, group, aggregator)

    def _close(self, plan: _Partial, calendar: Calendar, group: Sequence[Transfer], aggregator: str) -> _Partial | None:
        """Sends a group's sum to the destination, once all of it is there."""
        size = self.sum_size([t.update for t in group])
        start = max(t.end for t in group)
        last = calendar.reserve(self.network.path(aggregator, self.destination), size, start)
        if last is None:
            return None
        return plan.with_group(calendar, Group(aggregator, tuple(group), last))

    def _send(self, calendar: Calendar, update: Update, host: str, latest: int | None = None) -> Transfer | None:
        path = self.network.path(update.worker, host)
        reservation = calendar.reserve(path, update.size, max(self.now, update.ready), latest)
        return None if reservation is None else Transfer(update, reservation)
