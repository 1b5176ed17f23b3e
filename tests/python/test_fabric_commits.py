"""What a server and its replica commit, and in which order: the plan's, each update once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from jaxina.errors import InvalidArgumentError, JobRejectedError, MismatchError
from jaxina.fabric.follower import Follower
from jaxina.fabric.ledger import Ledger
from jaxina.fabric.turns import Arrived, Commit, Expected, Lost


def expected(*names, version=0, norm=1.0):
    return [Expected(name, version, 8, norm) for name in names]


def arrived(*names, is_sum=False):
    return Arrived(names, np.zeros(2, np.float32), b"", is_sum or len(names) > 1)


def told(decisions):
    """Names of commits as tuples, of lost updates as numbers."""
    return [d.name if isinstance(d, Lost) else d.arrived.names for d in decisions]


def planned(*names, **settings) -> Ledger:
    ledger = Ledger(**settings)
    ledger.plan(0, expected(*names))
    return ledger


@pytest.mark.parametrize("order", list(itertools.permutations([1, 2, 3, 4])))
def test_commits_follow_the_plan_whatever_comes_first(order):
    ledger = planned(1, 2, 3, 4)
    done = []
    for name in order:
        ledger.arrive(arrived(name))
        done += told(ledger.decide())
        assert done == [(n,) for n in (1, 2, 3, 4) if all(m in order[: order.index(name) + 1] for m in range(1, n + 1))]
    assert ledger.next == ledger.planned == 4


def test_an_update_whose_worker_is_gone_is_lost_at_its_turn():
    ledger = planned(1, 2, 3)
    ledger.arrive(arrived(3))
    ledger.abandon([2])
    assert told(ledger.decide()) == []
    ledger.arrive(arrived(1))
    assert told(ledger.decide()) == [(1,), 2, (3,)]


def test_an_update_that_has_come_counts_even_if_its_worker_is_gone():
    ledger = planned(1)
    ledger.arrive(arrived(1))
    ledger.abandon([1])
    assert told(ledger.decide()) == [(1,)]


def test_a_sum_takes_the_turns_of_its_updates_and_of_those_that_it_lacks():
    ledger = planned(1, 2, 3, 4)
    ledger.arrive(arrived(2, 4))
    assert told(ledger.decide()) == []
    ledger.arrive(arrived(1))
    (first, second) = ledger.decide()
    assert told([first]) == [(1,)]
    assert isinstance(second, Commit) and second.committed == (True, False, True)


def test_two_ways_of_one_update():
    """Whatever comes first counts, and the other is refused."""
    ledger = planned(1, 2, 3)
    ledger.arrive(arrived(2))
    for names in [(2,), (1, 2), (2, 3)]:
        with pytest.raises(JobRejectedError, match="duplicate"):
            ledger.check(names, 0, 8, None if len(names) == 1 else 8)
        with pytest.raises(JobRejectedError, match="duplicate"):
            ledger.arrive(arrived(*names))
    with pytest.raises(JobRejectedError, match="between"):
        ledger.arrive(arrived(1, 3))
    ledger.arrive(arrived(1))
    assert told(ledger.decide()) == [(1,), (2,)]
    for names in [(1,), (2, 3)]:
        with pytest.raises(JobRejectedError, match="is over"):
            ledger.check(names, 0, 8, None if len(names) == 1 else 8)


def test_what_is_not_planned_so_is_refused():
    ledger = Ledger()
    ledger.plan(0, [Expected(1, 5, 8), Expected(2, 6, 8)])
    with pytest.raises(JobRejectedError, match="no update 0x9 is planned"):
        ledger.check([9], 5, 8, None)
    for version in (4, 6):
        with pytest.raises(MismatchError, match=f"of version {version}, and the plan 5"):
            ledger.check([1], version, 8, None)
    with pytest.raises(MismatchError, match="of version 5, and the plan 6"):
        ledger.check([1, 2], 5, 8, 8)
    with pytest.raises(InvalidArgumentError, match="7 bytes, and the plan 8"):
        ledger.check([1], 5, 7, None)
    with pytest.raises(InvalidArgumentError, match="8 bytes, and the plan 16"):
        ledger.check([1, 2], 6, 8, 16)
    with pytest.raises(InvalidArgumentError, match="not in the order"):
        ledger.check([2, 1], 6, 8, 8)
    ledger.check([1, 2], 6, 8, 8)


def test_turns_may_be_told_twice_but_not_be_missing():
    ledger = planned(1, 2)
    ledger.plan(1, expected(2, 3))
    assert ledger.planned == 3
    with pytest.raises(MismatchError, match="turns are missing"):
        ledger.plan(5, expected(6))


def test_a_commit_waits_for_the_replica():
    ledger = planned(1, 2, 3, bound=2.0)
    for name in (1, 2, 3):
        ledger.arrive(arrived(name))
    assert told(ledger.decide()) == [(1,), (2,)] and ledger.divergence == 2.0
    ledger.replica_has(1)
    assert told(ledger.decide()) == [(3,)] and ledger.divergence == 2.0


def test_a_long_update_waits_until_the_replica_has_it():
    ledger = Ledger(bound=2.0)
    ledger.plan(0, expected(1, norm=3.0))
    ledger.arrive(arrived(1))
    assert told(ledger.decide()) == []
    ledger.replica_has(1)
    assert told(ledger.decide()) == [(1,)] and ledger.divergence == 0


def test_what_the_replica_can_never_get_the_server_does_not_commit_either():
    ledger = Ledger(bound=2.0)
    ledger.plan(0, expected(1, norm=3.0))
    ledger.arrive(arrived(1))
    ledger.abandon([1])
    assert told(ledger.decide()) == [1]


def test_without_its_replica_the_server_goes_on():
    ledger = Ledger(bound=2.0)
    ledger.plan(0, expected(1, norm=3.0))
    ledger.arrive(arrived(1))
    ledger.stop_waiting_for_replica()
    assert told(ledger.decide()) == [(1,)]


def follower(*names) -> Follower:
    made = Follower()
    made.plan(0, expected(*names))
    return made


def test_a_replica_follows_the_server():
    replica = follower(1, 2, 3)
    replica.arrive(arrived(2))
    replica.judge([True, False])
    assert told(replica.decide()) == [] and replica.received == 0
    replica.arrive(arrived(1))
    assert replica.received == 2
    assert told(replica.decide()) == [(1,), 2], "the server has lost it, so the replica leaves it out"
    replica.arrive(arrived(3))
    assert replica.received == 3 and told(replica.decide()) == []


def test_a_replica_that_cannot_get_an_update_gets_the_model():
    replica = follower(1, 2)
    replica.arrive(arrived(2))
    replica.judge([True])
    assert not replica.behind
    replica.abandon([1])
    assert replica.behind
    replica.load(1)
    replica.judge([True])
    assert not replica.behind and told(replica.decide()) == [(2,)]


def test_a_model_that_ends_what_is_judged():
    replica = follower(1, 2, 3)
    replica.arrive(arrived(3))
    replica.judge([True, True])
    replica.load(2)
    assert told(replica.decide()) == [] and replica.next == replica.judged == 2
    replica.judge([True])
    assert told(replica.decide()) == [(3,)]


def test_a_replica_that_takes_over_decides_on_all_that_is_planned():
    replica = follower(1, 2, 3, 4)
    replica.judge([True, False])
    for name in (2, 4):
        replica.arrive(arrived(name))
    assert told(replica.take_over()) == [1, 2, 3, (4,)]
    assert replica.next == replica.planned == 4
