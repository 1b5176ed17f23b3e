"""Which updates are added on their way: against all ways to cut an order into groups."""

from __future__ import annotations

import itertools
import random

import pytest

from jaxina.fabric import Calendar, Star, Update
from jaxina.fabric.aggregation import aggregate, dense_sum_size
from jaxina.fabric.calendar import NANOSECONDS
from jaxina.fabric.network import Nic


def star(workers: int, rate: int = 10, server: int = 10) -> Star:
    return Star({f"w{i}": Nic(rate, rate) for i in range(workers)} | {"server": Nic(server, server)})


def planned(network, updates, aggregators, now=0):
    return aggregate(network, Calendar(network.rates), "server", updates, aggregators, now)


def end(groups) -> int:
    return max(g.end for g in groups)


def updates_of(workers, size=10):
    return [Update(i, f"w{w}", size, 0) for i, w in enumerate(workers)]


def test_the_paper_s_example():
    """Figure 2: two go directly, and two are added meanwhile. The server has all after three times, not four."""
    groups, _ = planned(star(5), updates_of(range(4)), ["w4"])
    assert [(g.aggregator, [u.name for u in g.updates]) for g in groups] == [
        (None, [0]),
        (None, [1]),
        ("w4", [2, 3]),
    ]
    assert [g.end // NANOSECONDS for g in groups] == [1, 2, 3]


def test_an_aggregator_that_has_an_update_itself_saves_its_transfer():
    groups, _ = planned(star(4), updates_of([0, 1, 2]), ["w2"])
    assert [(g.aggregator, [u.name for u in g.updates]) for g in groups] == [(None, [0]), ("w2", [1, 2])]
    assert end(groups) == 2 * NANOSECONDS


def test_without_aggregators_all_go_directly():
    groups, _ = planned(star(3), updates_of(range(3)), [])
    assert [g.aggregator for g in groups] == [None] * 3 and end(groups) == 3 * NANOSECONDS
    assert planned(star(3), [], ["w0"])[0] == []


def test_a_slow_server_gets_one_sum():
    groups, _ = planned(star(7, rate=100, server=10), updates_of(range(6)), ["w6"])
    assert [g.aggregator for g in groups] == ["w6"] and len(groups[0].updates) == 6
    assert end(groups) == 1_600_000_000


def test_an_aggregator_behind_a_slow_link_is_not_used():
    network = Star({"w0": Nic(10, 10), "w1": Nic(10, 10), "slow": Nic(1, 1), "server": Nic(10, 10)})
    groups, _ = planned(network, [Update(i, f"w{i}", 10, 0) for i in range(2)], ["slow"])
    assert [g.aggregator for g in groups] == [None, None]


def test_an_aggregator_without_a_rate_is_not_used():
    network = Star({"w0": Nic(10, 10), "w1": Nic(10, 10), "dead": Nic(0, 0), "server": Nic(10, 10)})
    for aggregators in (["dead"], ["dead", "dead"]):
        groups, _ = planned(network, [Update(i, f"w{i % 2}", 10, 0) for i in range(4)], aggregators)
        assert [g.aggregator for g in groups] == [None] * 4


def test_the_sum_s_size_counts():
    network, updates = star(7, rate=100, server=10), updates_of(range(6))
    groups, _ = aggregate(
        network, Calendar(network.rates), "server", updates, ["w6"], 0, lambda us: sum(u.size for u in us)
    )
    assert all(g.aggregator is None for g in groups), "a sum as large as its parts saves nothing"
    assert dense_sum_size(updates) == 10


def best_end_of_all_cuts(network, updates, aggregators) -> int:
    """The earliest end over all ways to cut the order: each part goes directly, or to any aggregator not used yet."""
    count = len(updates)
    ends = []
    for borders in itertools.product((False, True), repeat=count - 1):
        places = [0, *(i + 1 for i, b in enumerate(borders) if b), count]
        parts = [updates[a:b] for a, b in itertools.pairwise(places)]
        sums = sum(len(p) > 1 for p in parts)
        ends += [end_of_cut(network, parts, iter(hosts)) for hosts in itertools.permutations(aggregators, sums)]
    return min(ends)


def end_of_cut(network, parts, hosts) -> int:
    calendar, ends = Calendar(network.rates), []
    for part in parts:
        if len(part) == 1:
            ends.append(calendar.reserve(network.path(part[0].worker, "server"), part[0].size, 0).end)
            continue
        host = next(hosts)
        there = max(calendar.reserve(network.path(u.worker, host), u.size, 0).end for u in part)
        ends.append(calendar.reserve(network.path(host, "server"), dense_sum_size(part), there).end)
    return max(ends)


def test_the_end_is_near_the_best_of_all_cuts():
    ratios = []
    for seed in range(150):
        draw = random.Random(seed)
        workers = draw.randint(3, 6)
        network = Star(
            {f"w{i}": Nic(draw.choice([2, 5, 10]), draw.choice([2, 5, 10])) for i in range(workers)}
            | {"server": Nic(10, draw.choice([5, 10]))}
        )
        updates = [Update(i, f"w{draw.randrange(workers)}", 10, 0) for i in range(draw.randint(2, 7))]
        aggregators = draw.sample([f"w{i}" for i in range(workers)], draw.randint(1, 3))
        groups, _ = planned(network, updates, aggregators)
        assert [u for g in groups for u in g.updates] == updates, "the order is kept"
        ratios.append(end(groups) / best_end_of_all_cuts(network, updates, aggregators))
    assert min(ratios) >= 1.0
    assert sum(ratios) / len(ratios) < 1.1 and max(ratios) <= 1.5


@pytest.mark.parametrize("count", [40, 90])
def test_large_batches_lose_little_by_trying_fewer_cases(count, monkeypatch):
    lost = []
    for seed in range(6):
        draw = random.Random(seed)
        network = Star(
            {f"w{i}": Nic(draw.choice([1, 2, 5, 10]), draw.choice([1, 2, 5, 10])) for i in range(20)}
            | {"server": Nic(10, 10)}
        )
        updates = [Update(i, f"w{draw.randrange(20)}", 100, 0) for i in range(count)]
        aggregators = draw.sample([f"w{i}" for i in range(20)], 4)
        groups, _ = planned(network, updates, aggregators)
        with monkeypatch.context() as patched:
            patched.setattr("jaxina.fabric.aggregation._CASES", count)
            all_tried, _ = planned(network, updates, aggregators)
        assert end(all_tried) <= end(groups)
        lost.append(end(groups) / end(all_tried))
    assert max(lost) < 1.05
