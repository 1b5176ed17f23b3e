"""The order in which a batch of updates reaches the server: Algorithms 1 and 2."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence

import numpy as np

from jaxina.errors import InvalidArgumentError
from jaxina.fabric.calendar import Calendar
from jaxina.fabric.network import Network
from jaxina.fabric.plans import Dropped, DropReason, Transfer
from jaxina.fabric.race import Race
from jaxina.fabric.updates import Update


class Policy(enum.Enum):
    """Which update must be sent next because of its deadline."""

    PAPER = "paper"
    """As published: the one whose deadline is the number of the iteration. Iterations count updates that are dropped,
    and of two updates with one deadline the second misses it. It is then dropped, which the paper leaves open."""

    EDF = "edf"
    """Earliest deadline first, and only where waiting would make some deadline impossible to hold."""


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """Updates in the order of their arrival, and those that are not sent."""

    transfers: tuple[Transfer, ...]
    dropped: tuple[Dropped, ...]


def shortest_first_order(
    network: Network, calendar: Calendar, server: str, updates: Sequence[Update], now: int
) -> Order:
    """Algorithm 1: always the update that would arrive first. Reserves what it plans.

    Args:
      network: gives the paths.
      calendar: what is free. The transfers are reserved in it.
      server: the destination.
      updates: in the order that decides between equal arrivals.
      now: nanoseconds.
    """
    return _order(_Batch(network, calendar, server, updates, now), _NoDeadlines())


def bounded_delay_order(
    network: Network,
    calendar: Calendar,
    server: str,
    updates: Sequence[Update],
    now: int,
    version: int,
    delay_bound: int,
    policy: Policy = Policy.EDF,
) -> Order:
    """Algorithm 2: the shortest first, unless a deadline is near. Reserves what it plans.

    An update's delay is how many updates the model got between the version that it was computed from and its own
    commit. The i-th commit of the batch has delay `version` + i - 1 - v. It is below `delay_bound` if i is at most the
    update's deadline, v + `delay_bound` - `version` (equation 9).

    Args:
      network, calendar, server, updates, now: as in `shortest_first_order`.
      version: the model's version when this batch's first update is committed.
      delay_bound: tau_max, at least 1. Every delay is below it.
      policy: who goes first because of its deadline.

    Raises:
      InvalidArgumentError: the bound is below 1, or an update is of a version that the model does not have.
    """
    if delay_bound < 1:
        raise InvalidArgumentError(f"a delay bound of {delay_bound} lets no update through: it must be at least 1")
    for update in updates:
        if update.version > version:
            raise InvalidArgumentError(
                f"update {update.name} of {update.worker} is of version {update.version}, but the model has {version}"
            )
    deadlines = [u.version + delay_bound - version for u in updates]
    rule = _EarliestFirst(deadlines) if policy is Policy.EDF else _AsPublished(deadlines)
    return _order(_Batch(network, calendar, server, updates, now), rule)


class _Batch:
    """The updates of a batch that are not planned yet."""

    def __init__(self, network: Network, calendar: Calendar, server: str, updates: Sequence[Update], now: int) -> None:
        self.calendar = calendar
        self.updates = updates
        self.race = Race(network, calendar, server, updates, now)
        self.left = set(range(len(updates)))
        self.transfers: list[Transfer] = []
        self.dropped: list[Dropped] = []

    def drop(self, i: int, reason: DropReason) -> None:
        self.left.discard(i)
        self.race.remove(i)
        self.dropped.append(Dropped(self.updates[i], reason))

    def commit(self, i: int) -> None:
        reservation = self.calendar.reserve(self.race.path(i), self.updates[i].size, self.race.start(i))
        assert reservation is not None
        self.left.discard(i)
        self.race.remove(i)
        self.transfers.append(Transfer(self.updates[i], reservation))


class _NoDeadlines:
    """Nobody must go first."""

    def forced(self, committed: int, iteration: int) -> set[int] | None:
        return None

    def is_late(self, i: int, committed: int) -> bool:
        return False

    def hopeless(self, batch: _Batch) -> list[int]:
        return []

    def forget(self, i: int) -> None:
        pass


class _AsPublished(_NoDeadlines):
    """Those whose deadline is the number of the iteration."""

    def __init__(self, deadlines: Sequence[int]) -> None:
        self._deadlines = list(deadlines)
        self._at: dict[int, set[int]] = {}
        for i, deadline in enumerate(deadlines):
            self._at.setdefault(deadline, set()).add(i)

    def forced(self, committed: int, iteration: int) -> set[int] | None:
        return self._at.get(iteration) or None

    def is_late(self, i: int, committed: int) -> bool:
        return committed + 1 > self._deadlines[i]

    def forget(self, i: int) -> None:
        self._at[self._deadlines[i]].discard(i)


class _EarliestFirst(_NoDeadlines):
    """Those without which a deadline would be impossible: as many updates are due by it as commits are left."""

    def __init__(self, deadlines: Sequence[int]) -> None:
        self._deadlines = [min(d, len(deadlines)) for d in deadlines]  # no later one can matter
        self._past = [i for i, d in enumerate(deadlines) if d < 1]
        self._due = np.zeros(len(deadlines) + 1, np.int64)  # how many have each deadline
        for deadline in self._deadlines:
            self._due[max(deadline, 0)] += 1

    def forced(self, committed: int, iteration: int) -> set[int] | None:
        full = np.flatnonzero(self._slack(committed) == 0)
        if not len(full):
            return None
        by = committed + 1 + int(full[0])
        return {i for i, d in enumerate(self._deadlines) if d <= by}

    def hopeless(self, batch: _Batch) -> list[int]:
        """Those that must be dropped so that the others can hold their deadlines: of too many, the last to arrive."""
        dropped = list(self._past)
        for i in dropped:
            self.forget(i)
        gone = set(dropped)
        while len(over := np.flatnonzero(self._slack(0) < 0)):
            by = 1 + int(over[0])
            due = [i for i, d in enumerate(self._deadlines) if d <= by and i not in gone]
            ends = [batch.race.end(batch.calendar, i) for i in due]
            worst = max(range(len(due)), key=lambda k: (ends[k] is None, ends[k] or 0, due[k]))
            self.forget(due[worst])
            gone.add(due[worst])
            dropped.append(due[worst])
        return dropped

    def forget(self, i: int) -> None:
        self._due[max(self._deadlines[i], 0)] -= 1

    def _slack(self, committed: int) -> np.ndarray:
        """For each deadline after the commits so far: how many more updates could be due by it."""
        due = np.cumsum(self._due)[committed + 1 :]
        return np.arange(1, len(due) + 1) - due


def _order(batch: _Batch, rule: _NoDeadlines) -> Order:
    for i in rule.hopeless(batch):
        batch.drop(i, DropReason.TOO_OLD)
    for i in sorted(batch.left):
        if batch.race.end(batch.calendar, i) is None:
            rule.forget(i)
            batch.drop(i, DropReason.NO_PATH)
    iteration = 0
    while batch.left:
        iteration += 1
        committed = len(batch.transfers)
        forced = rule.forced(committed, iteration)
        chosen = batch.race.first(batch.calendar, forced)
        assert chosen is not None
        rule.forget(chosen)
        if rule.is_late(chosen, committed):
            batch.drop(chosen, DropReason.TOO_OLD)
        elif forced is not None and _next_is_sooner(batch, rule, chosen, iteration):
            batch.drop(chosen, DropReason.HOLDS_OTHERS_UP)
        else:
            batch.commit(chosen)
    return Order(tuple(batch.transfers), tuple(batch.dropped))


def _next_is_sooner(batch: _Batch, rule: _NoDeadlines, chosen: int, iteration: int) -> bool:
    """Whether the update after the chosen one would arrive before it (section 5.1.3)."""
    tried = batch.calendar.fork()
    reservation = tried.reserve(batch.race.path(chosen), batch.updates[chosen].size, batch.race.start(chosen))
    assert reservation is not None
    others = batch.left - {chosen}
    after = rule.forced(len(batch.transfers) + 1, iteration + 1)
    following = batch.race.first(tried, others if after is None else after & others, tried=True)
    if following is None:
        return False
    end = batch.race.end(tried, following)
    return end is not None and end < reservation.end
