"""Batch after batch in random worlds: delays, links, order and divergence hold, and each broken rule is found."""

from __future__ import annotations

import collections
import dataclasses

import pytest
from fabric_world import World

from jaxina.errors import InvalidArgumentError
from jaxina.fabric import Group, Policy, Scheduler, Settings, Star, Update
from jaxina.fabric.calendar import NANOSECONDS
from jaxina.fabric.network import Nic
from jaxina.fabric.race import Race

SEEDS = 150
BATCHES = 12


def test_plans_hold_what_they_promise():
    committed: collections.Counter[str] = collections.Counter()
    for seed in range(SEEDS):
        counts = World(seed).run(BATCHES)
        committed["updates"] += counts.committed
        committed["aggregated"] += counts.aggregated
        committed["replicated"] += counts.replicated
        committed["dropped"] += counts.dropped.total()
        committed["held"] += counts.held
        committed["at the bound of delay"] += counts.most_delay == 1.0
        committed["near the bound of divergence"] += counts.most_divergence > 0.8
    assert len(committed) == 7 and min(committed.values()) >= 5, committed


def run_all():
    for seed in range(SEEDS):
        World(seed).run(BATCHES)


def _more_slack(monkeypatch):
    from jaxina.fabric import ordering

    slack = ordering._EarliestFirst._slack
    monkeypatch.setattr(ordering._EarliestFirst, "_slack", lambda self, committed: slack(self, committed) + 1)


def _late_is_fine(monkeypatch):
    monkeypatch.setattr("jaxina.fabric.ordering._AsPublished.is_late", lambda self, i, committed: False)


def _one_link_only(monkeypatch):
    from jaxina.fabric.calendar import Calendar

    reserve = Calendar.reserve

    def careless(self, path, size, start, latest=None):
        reservation = reserve(self, path, size, start, latest)
        if reservation is not None and path:
            self._profiles[path[0]] = self._profiles[path[0]].with_pieces(reservation.pieces, -1)
        return reservation

    monkeypatch.setattr(Calendar, "reserve", careless)


def _sum_before_its_parts(monkeypatch):
    from jaxina.fabric.aggregation import _World

    def too_early(self, plan, calendar, group, aggregator):
        path = self.network.path(aggregator, self.destination)
        size = self.sum_size([t.update for t in group])
        last = calendar.reserve(path, size, min(t.end for t in group))
        return None if last is None else plan.with_group(calendar, Group(aggregator, tuple(group), last))

    monkeypatch.setattr(_World, "_close", too_early)


def _no_waiting_for_the_replica(monkeypatch):
    monkeypatch.setattr("jaxina.fabric.replication._later", lambda calendar, group, start: group)


def _momentum_forgotten(monkeypatch):
    from jaxina.fabric import replication

    lead = replication.Lead
    monkeypatch.setattr(replication, "Lead", lambda momentum, *rest: lead(0.0, *rest))


def _pending_forgotten(monkeypatch):
    from jaxina.fabric.replication import Replica

    replicate = Replica.replicate

    def forgetful(self, *rest):
        done = replicate(self, *rest)
        self._pending = self._pending[1:]
        return done

    monkeypatch.setattr(Replica, "replicate", forgetful)


def _held_are_committed_too(monkeypatch):
    from jaxina.fabric.replication import Replica

    replicate = Replica.replicate

    def careless(self, network, calendar, groups, *rest):
        done = replicate(self, network, calendar, groups, *rest)
        object.__setattr__(done, "server", list(groups))
        return done

    monkeypatch.setattr(Replica, "replicate", careless)


def _half_is_sent(monkeypatch):
    from jaxina.fabric.aggregation import _World

    send = _World._send

    def half(self, calendar, update, *rest):
        return send(self, calendar, dataclasses.replace(update, size=max(update.size // 2, 1)), *rest)

    monkeypatch.setattr(_World, "_send", half)


@pytest.mark.parametrize(
    "break_it",
    [
        _more_slack,
        _late_is_fine,
        _one_link_only,
        _sum_before_its_parts,
        _no_waiting_for_the_replica,
        _momentum_forgotten,
        _pending_forgotten,
        _held_are_committed_too,
        _half_is_sent,
    ],
)
def test_a_broken_rule_is_found(break_it, monkeypatch):
    break_it(monkeypatch)
    with pytest.raises(AssertionError):
        run_all()


def test_the_same_seed_gives_the_same_plans():
    assert World(3).run(BATCHES) == World(3).run(BATCHES)


def test_the_first_to_arrive_is_the_soonest_of_all(monkeypatch):
    """Among reservations, and over links that are faster or slower than at first."""
    first = Race.first
    choices = 0

    def compared(self, calendar, among=None, tried=False):
        nonlocal choices
        chosen = first(self, calendar, among, tried)
        left = [i for i in range(len(self.updates)) if self._left[i] and (among is None or i in among)]
        ends = [(end, i) for i in left if (end := self.end(calendar, i)) is not None]
        assert chosen == (min(ends)[1] if ends else None)
        choices += len(ends) > 1
        return chosen

    monkeypatch.setattr(Race, "first", compared)
    for seed in range(40):
        World(seed).run(BATCHES)
    assert choices > 500


def test_a_link_that_is_faster_now_wins():
    """At first w0's link is the slower one. Then it is the faster one, and holds nobody up."""
    network = Star({"w0": Nic(10, 10), "w1": Nic(100, 100), "server": Nic(10_000, 10_000)})
    job = Scheduler(network, Settings("server", 8))
    job.set_rate(network.outgoing("w0"), 1000)
    for name in (0, 1):
        job.add(Update(name, f"w{name}", 1000, 0))
    plan = job.plan(0)
    assert [(end, u.name) for end, u in plan.commits()] == [(NANOSECONDS, 0), (10 * NANOSECONDS, 1)]
    assert not plan.dropped


NETWORK = Star({"w": Nic(10, 10), "server": Nic(10, 10), "replica": Nic(10, 10)})


def test_updates_that_cannot_be_are_refused():
    job = Scheduler(NETWORK, Settings("server", 5))
    job.add(Update(0, "w", 10, 0))
    with pytest.raises(InvalidArgumentError, match="there was an update 0 before"):
        job.add(Update(0, "w", 10, 0))
    with pytest.raises(InvalidArgumentError, match="update 1 of w is of version 1, but the model has 0"):
        job.add(Update(1, "w", 10, 1))
    with pytest.raises(InvalidArgumentError, match="no host 'v'"):
        job.add(Update(2, "v", 10, 0))
    assert [u.name for _, u in job.plan(0).commits()] == [0]
    with pytest.raises(InvalidArgumentError, match="there was an update 0 before"):
        job.add(Update(0, "w", 10, 1))


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(delay_bound=0), "bound of 0"),
        (dict(momentum=1.0), "momentum of 1.0"),
        (dict(groups=-1), "-1 groups"),
        (dict(replica="replica"), "a replica needs a divergence bound"),
        (dict(divergence_bound=1.0), "a divergence bound a replica"),
        (dict(replica="replica", divergence_bound=0.0), "must be positive"),
        (dict(aggregators=["v"]), "no host 'v'"),
        (dict(replica="v", divergence_bound=1.0), "no host 'v'"),
        (dict(server="v"), "no host 'v'"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(InvalidArgumentError, match=message):
        Scheduler(NETWORK, Settings(**(dict(server="server", delay_bound=5, policy=Policy.EDF) | settings)))
