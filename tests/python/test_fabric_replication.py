"""How far a replica may fall behind."""

from __future__ import annotations

import numpy as np
import pytest

from jaxina.errors import InvalidArgumentError
from jaxina.fabric import Scheduler, Settings, Star, Update
from jaxina.fabric.calendar import NANOSECONDS
from jaxina.fabric.divergence import Lead
from jaxina.fabric.network import Nic
from jaxina.fabric.replication import Replica


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_the_bound_is_the_design_s_sum(momentum):
    """sum_{k=1..m} g^k |h| + sum_j (sum_{k=0..m-j} g^k) |u_j|, whatever was replicated before."""
    norms = [0.3, 2.0, 1.1, 0.7]
    history = 1.7
    lead = Lead(momentum, history, norms)
    for first in range(len(norms) + 1):
        rest = norms[first:]
        m = len(rest)
        expected = sum(momentum**k for k in range(1, m + 1)) * history
        expected += sum(sum(momentum**k for k in range(m - j + 1)) * u for j, u in enumerate(rest, 1))
        assert len(lead) == m and lead.divergence == pytest.approx(expected)
        assert lead.history == pytest.approx(history)
        if rest:
            lead.replicate()
            history = momentum * history + rest[0]


def test_parallel_updates_reach_the_bound():
    """The bound is not only above the distance: it is the distance where all updates point the same way."""
    norms, momentum = [1.0, 2.0, 0.5], 0.9
    weights, history = 0.0, 0.0
    for norm in norms:
        history = momentum * history + norm
        weights += history
    assert Lead(momentum, 0.0, norms).divergence == pytest.approx(weights)


def scheduler(replica_rate: int, bound: float, **more) -> Scheduler:
    network = Star({"a": Nic(10, 10), "b": Nic(10, 10), "server": Nic(10, 10), "replica": Nic(10, replica_rate)})
    return Scheduler(network, Settings("server", 100, replica="replica", divergence_bound=bound, **more))


def test_within_the_bound_the_replica_s_updates_wait_for_the_next_batch():
    job = scheduler(replica_rate=2, bound=2.0)
    for i, worker in enumerate("ab"):
        job.add(Update(i, worker, 10, 0, norm=1.0))
    plan = job.plan(0)
    assert [t // NANOSECONDS for t, _ in plan.commits()] == [1, 2]
    assert plan.replica == () and [u.name for u in job.replica.pending] == [0, 1]
    assert job.replica.divergence() == 2.0


def test_beyond_the_bound_the_server_s_last_update_waits_for_the_replica():
    """Figure 3 of the paper: the replica has the first before the server may have the second."""
    job = scheduler(replica_rate=2, bound=1.5)
    for i, worker in enumerate("ab"):
        job.add(Update(i, worker, 10, 0, norm=1.0))
    plan = job.plan(0)
    assert [u.name for g in plan.replica for u in g.updates] == [0]
    (there,) = (g.end for g in plan.replica)
    assert plan.groups[1].transfers[-1].reservation.start >= there
    assert plan.commits()[1][0] > there and job.replica.divergence() == 1.0


def test_an_update_longer_than_the_bound_is_at_the_replica_first():
    job = scheduler(replica_rate=5, bound=1.0)
    job.add(Update(0, "a", 10, 0, norm=7.0))
    plan = job.plan(0)
    assert plan.commits()[0][0] > plan.replica[0].end and job.replica.divergence() == 0.0


def test_a_replica_that_cannot_be_reached_stops_the_server_at_the_bound():
    job = scheduler(replica_rate=0, bound=1.5)
    for i, worker in enumerate("ab"):
        job.add(Update(i, worker, 10, 0, norm=1.0))
    plan = job.plan(0)
    assert [u.name for _, u in plan.commits()] == [0] and [u.name for u in plan.held] == [1]
    assert job.version == 1
    (link,) = job._network.path("a", "replica")[1:]
    job.set_rate(link, 10)
    later = job.plan(5 * NANOSECONDS)
    assert [u.name for _, u in later.commits()] == [1] and not later.held
    assert [u.name for g in later.replica for u in g.updates][:1] == [0]


def test_what_is_on_its_way_to_the_replica_is_not_there_yet():
    """The replica catches up, and that takes until after the next batch's commits: the server must not count on it."""
    job = scheduler(replica_rate=1, bound=1.5)
    job.add(Update(0, "a", 10, 0, norm=1.0))
    job.plan(0)
    (caught_up,) = job.plan(2 * NANOSECONDS).replica
    assert caught_up.end == 12 * NANOSECONDS and job.replica.divergence() == 0.0
    job.add(Update(1, "b", 1, 0, norm=1.0))
    ((committed, update),) = job.plan(3 * NANOSECONDS).commits()
    assert update.name == 1 and committed >= caught_up.end


def test_what_the_replica_got_another_way_counts_in_its_history():
    """It has h = 3 then. So the next update, of length 1, moves the server by half of that and 1."""
    job = scheduler(replica_rate=1, bound=10.0, momentum=0.5)
    job.add(Update(0, "a", 10, 0, norm=3.0))
    job.plan(0)
    job.replicated([0])
    assert job.replica.divergence() == 0.0 and not job.replica.pending
    job.add(Update(1, "b", 10, 1, norm=1.0))
    assert not job.plan(NANOSECONDS).held
    assert [update.name for update in job.replica.pending] == [1]
    assert job.replica.divergence() == 2.5


def test_bad_bounds_are_refused():
    for bound in (0.0, -1.0, float("nan")):
        with pytest.raises(InvalidArgumentError, match="must be positive"):
            Replica("replica", bound)
    assert np.isfinite(Lead(0.5).divergence)
