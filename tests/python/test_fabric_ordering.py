"""The order of a batch: against all orders, against a solver, and with deadlines."""

from __future__ import annotations

import random

import pytest
from fabric_optimum import best_mean_end, least_too_old, mean_end, random_batch, ratio_to_solver

from jaxina.errors import InvalidArgumentError
from jaxina.fabric import Calendar, DropReason, Policy, Star, Update, bounded_delay_order, shortest_first_order
from jaxina.fabric.calendar import NANOSECONDS
from jaxina.fabric.network import Nic

FAST = Star({"a": Nic(10, 10), "b": Nic(10, 10), "c": Nic(10, 10), "server": Nic(10, 10)})


def order_of(updates, network=FAST, version=0, delay_bound=None, policy=Policy.EDF):
    if delay_bound is None:
        return shortest_first_order(network, Calendar(network.rates), "server", updates, 0)
    return bounded_delay_order(network, Calendar(network.rates), "server", updates, 0, version, delay_bound, policy)


def names(order):
    return [t.update.name for t in order.transfers]


def test_the_shortest_transfer_goes_first():
    order = order_of([Update(0, "a", 30, 0), Update(1, "b", 10, 0), Update(2, "c", 20, 0)])
    assert names(order) == [1, 2, 0]
    assert [t.end // NANOSECONDS for t in order.transfers] == [1, 3, 6]


def test_of_equals_the_first_given_goes_first():
    assert names(order_of([Update(i, w, 10, 0) for i, w in enumerate("cab")])) == [0, 1, 2]


@pytest.mark.parametrize("changed", [False, True], ids=["first rates", "changed rates"])
@pytest.mark.parametrize("seed", range(60))
def test_each_choice_is_the_soonest_of_all_that_are_left(seed, changed):
    """The lower bounds that save looks change nothing, also if links are faster or slower than they were at first."""
    draw = random.Random(seed)
    network, updates = random_batch(draw, 30)
    calendar = Calendar(network.rates)
    for link in range(len(network.rates)) if changed else ():
        calendar.set_rate(link, draw.choice([1, 2, 5, 10, 100]))
    left = list(updates)
    for transfer in shortest_first_order(network, calendar.fork(), "server", updates, 0).transfers:
        soonest = min(left, key=lambda u: (calendar.end(network.path(u.worker, "server"), u.size, 0), u.name))
        assert transfer.update == soonest
        calendar.reserve(network.path(soonest.worker, "server"), soonest.size, 0)
        left.remove(soonest)
    assert not left


def test_the_mean_end_is_near_the_best_order_s():
    """Shortest first is not the best: it puts a transfer over a slow link last, which could have run beside others."""
    ratios = []
    for seed in range(100):
        network, updates = random_batch(random.Random(seed), 6)
        planned = [t.update for t in order_of(updates, network).transfers]
        ratios.append(mean_end(network, "server", planned) / best_mean_end(network, "server", updates))
    assert min(ratios) == 1.0 and sum(ratios) / len(ratios) < 1.1 and max(ratios) < 1.5


@pytest.mark.nightly
def test_the_mean_end_is_near_the_solver_s():
    ratios = [ratio_to_solver(seed) for seed in range(10)]
    assert sum(ratios) / len(ratios) < 1.25


@pytest.mark.parametrize("policy", Policy)
def test_an_old_update_goes_first(policy):
    updates = [Update(0, "a", 10, 5), Update(1, "b", 20, 5), Update(2, "c", 11, 3)]
    order = order_of(updates, version=5, delay_bound=3, policy=policy)
    assert names(order) == [2, 0, 1] and not order.dropped


@pytest.mark.parametrize("policy", Policy)
def test_an_update_that_is_too_old_is_dropped(policy):
    order = order_of([Update(0, "a", 10, 4), Update(1, "b", 10, 2)], version=5, delay_bound=3, policy=policy)
    assert names(order) == [0]
    assert [(d.update.name, d.reason) for d in order.dropped] == [(1, DropReason.TOO_OLD)]


@pytest.mark.parametrize("policy", Policy)
def test_an_old_update_behind_a_slow_link_holds_nobody_up(policy):
    """Figure 5 of the paper: 10 of 100 are left for it, so the next one would arrive before it."""
    network = Star({"slow": Nic(10, 10), "fast": Nic(100, 100), "server": Nic(100, 100)})
    updates = [Update(0, "slow", 100, 0), Update(1, "fast", 100, 4)]
    order = order_of(updates, network, version=4, delay_bound=5, policy=policy)
    assert names(order) == [1]
    assert [(d.update.name, d.reason) for d in order.dropped] == [(0, DropReason.HOLDS_OTHERS_UP)]


def test_of_two_updates_with_one_deadline_the_paper_s_rule_loses_one():
    updates = [Update(0, "a", 10, 4), Update(1, "b", 20, 2), Update(2, "c", 20, 2)]
    settings = dict(version=4, delay_bound=4)  # the deadlines of 1 and 2 are the second commit
    assert names(order_of(updates, policy=Policy.EDF, **settings)) == [1, 2, 0]
    published = order_of(updates, policy=Policy.PAPER, **settings)
    assert names(published) == [0, 1]
    assert [(d.update.name, d.reason) for d in published.dropped] == [(2, DropReason.TOO_OLD)]


@pytest.mark.parametrize("seed", range(100))
def test_no_more_updates_are_too_old_than_must_be(seed):
    draw = random.Random(seed)
    updates = [Update(i, "abc"[i % 3], 10, draw.randint(0, 8)) for i in range(draw.randint(1, 7))]
    bound = draw.randint(1, 8)
    order = order_of(updates, version=8, delay_bound=bound)
    too_old = [d for d in order.dropped if d.reason is DropReason.TOO_OLD]
    assert len(too_old) == least_too_old([u.version + bound - 8 for u in updates])


def test_a_link_without_a_rate_drops_its_updates():
    network = Star({"a": Nic(0, 10), "b": Nic(10, 10), "server": Nic(10, 10)})
    for bound in (None, 5):
        order = order_of([Update(0, "a", 10, 0), Update(1, "b", 10, 0)], network, delay_bound=bound)
        assert names(order) == [1]
        assert [(d.update.name, d.reason) for d in order.dropped] == [(0, DropReason.NO_PATH)]


def test_an_update_of_the_server_s_own_host_takes_no_time():
    order = order_of([Update(0, "a", 10, 0), Update(1, "server", 99, 0)])
    assert [(t.update.name, t.end) for t in order.transfers] == [(1, 0), (0, NANOSECONDS)]


def test_bad_batches_are_refused():
    with pytest.raises(InvalidArgumentError, match="bound of 0 lets no update through"):
        order_of([], delay_bound=0)
    with pytest.raises(InvalidArgumentError, match="update 0 of a is of version 3, but the model has 2"):
        order_of([Update(0, "a", 1, 3)], version=2, delay_bound=1)
    for bad in (dict(size=0), dict(version=-1), dict(ready=-1), dict(norm=float("nan")), dict(norm=-1.0)):
        with pytest.raises(InvalidArgumentError, match="update 0 of a"):
            Update(**(dict(name=0, worker="a", size=1, version=0) | bad))
