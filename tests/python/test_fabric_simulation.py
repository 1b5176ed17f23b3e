"""Training in virtual time: shares of links, and what each way of training waits for."""

from __future__ import annotations

import dataclasses

import pytest
import simpy

from experiments.fabric import study
from experiments.fabric.baselines import asynchronous, ring, ring_path
from experiments.fabric.conditions import GIGABIT, Cluster, Conditions
from experiments.fabric.fluid_network import FluidNetwork
from experiments.fabric.learner import Counter
from experiments.fabric.race import Race
from experiments.fabric.scheduled import scheduled
from experiments.records import append

CALM = Cluster("C1", "N1", change_seconds=1e9)
NEVER = 10**9


def arrivals(rates, transfers):
    """When transfers of (start, path, size) arrive."""
    env = simpy.Environment()
    network = FluidNetwork(env, rates)
    ends = {}

    def send(i, start, path, size):
        yield env.timeout(start)
        yield network.send(path, size)
        ends[i] = env.now

    for i, transfer in enumerate(transfers):
        env.process(send(i, *transfer))
    env.run()
    assert network.carried == pytest.approx(
        [sum(size for _, path, size in transfers if link in path) for link in range(len(rates))]
    )
    return [ends[i] for i in range(len(transfers))]


def test_transfers_share_a_link():
    assert arrivals([10], [(0, (0,), 20), (0, (0,), 40)]) == pytest.approx([4, 6])
    assert arrivals([10], [(0, (0,), 40), (1, (0,), 10)]) == pytest.approx([5, 3])


def test_shares_are_max_min_fair():
    """The first is held to 2 by link 1, so the second has 8 of link 0."""
    assert arrivals([10, 2], [(0, (0, 1), 4), (0, (0,), 24)]) == pytest.approx([2, 2.8])


def test_a_transfer_without_a_path_is_there_at_once():
    assert arrivals([10], [(3, (), 40)]) == [3]


def test_a_link_that_stops_holds_its_transfers():
    env = simpy.Environment()
    network = FluidNetwork(env, [10.0])
    done = network.send((0,), 30)

    def change():
        yield env.timeout(1)
        network.set_rate(0, 0)
        yield env.timeout(5)
        network.set_rate(0, 5)

    env.process(change())
    env.run(done)
    assert env.now == pytest.approx(10)


def test_a_plan_s_picture_has_a_row_for_each_link_and_a_label_for_each_transfer():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from experiments.fabric.picture import draw, example

    shown = example()
    figure, axes = plt.subplots()
    draw(axes, shown.star, shown.plan, shown.hosts)
    rows = [label.get_text() for label in axes.get_yticklabels()]
    assert rows == ["a sends", "b sends", "c sends", "c receives", "d sends", "e sends", "server receives"]
    labels = [text.get_text() for text in axes.texts]
    assert sorted(labels) == sorted(["0", "1", "2+3+4"] * 2 + ["3", "4"] * 2)
    plt.close(figure)


def race(start, cluster=CALM, seconds=30.0, gradients=NEVER):
    return Race("way", cluster, 0, Counter(), gradients, NEVER).run(start, seconds)


def test_a_ring_takes_what_its_slowest_link_and_worker_take():
    cluster = dataclasses.replace(CALM, compute="slow hosts")
    run = Race("ring", cluster, 0, Counter(), 300, NEVER)
    slowest = min(run.conditions.star.rates[:30])
    outcome = run.run(ring(), 1e6)
    seconds = 4 * cluster.step_seconds + 2 * 29 / 30 * cluster.size / slowest
    assert outcome.seconds == pytest.approx(10 * seconds) and set(outcome.ages) == {0}


def test_backup_workers_are_not_waited_for():
    cluster = dataclasses.replace(CALM, compute="slow hosts")
    outcome = race(ring(backup=6), cluster, gradients=240)
    assert outcome.dropped == 60
    assert outcome.seconds < race(ring(), cluster, gradients=300).seconds / 1.5


def test_a_ring_of_one_host_needs_no_link():
    run = Race("ring", CALM, 0, Counter(), NEVER, NEVER)
    assert ring_path(run, [0, 1]) == () and len(ring_path(run, range(30))) == 30


def test_unscheduled_workers_that_begin_together_stay_together():
    """They share the server's links fairly, so they all receive, then all send: each link is used half of the time."""
    outcome = race(asynchronous())
    most = 10 * GIGABIT * outcome.seconds / CALM.size
    assert 0.4 * most < outcome.gradients <= 0.5 * most


def test_stale_synchronous_workers_wait_for_the_slowest():
    cluster = dataclasses.replace(CALM, compute="slow hosts", size=1000)
    assert race(asynchronous(slack=2), cluster).gradients < 0.4 * race(asynchronous(), cluster).gradients


@pytest.mark.parametrize("bound", [10, 30])
@pytest.mark.parametrize("network", ["N1", "N3"])
def test_scheduled_updates_are_never_older_than_the_bound(bound, network):
    cluster = dataclasses.replace(CALM, network=network, change_seconds=5.0)
    outcome = race(scheduled(bound), cluster)
    assert max(outcome.ages) < bound
    if network == "N1" and bound == 30:
        assert outcome.gradients > 2 * race(asynchronous(), cluster).gradients, "sums save the server's link"


def test_the_same_seed_is_the_same_race():
    assert race(scheduled(30)) == race(scheduled(30))


def test_all_ways_meet_the_same_links():
    env = simpy.Environment()
    one, other = (Conditions(env, dataclasses.replace(CALM, change_seconds=5.0), 7) for _ in range(2))
    env.run(21)
    assert one.links.rates == other.links.rates
    assert [one.compute_seconds(3) for _ in range(9)] == [other.compute_seconds(3) for _ in range(9)]


def test_times_to_a_score_are_those_of_one_workload(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(study, "FILE", tmp_path / "fabric.jsonl")
    setting = study.Setting("ring", "C2", "N2", "vgg", 0.1, 0, 6000, 240, 1)
    append(study.FILE, setting, {"scores": [(40.0, 6000, 85.0)]})
    append(study.FILE, dataclasses.replace(setting, workload="resnet"), {"scores": [(60.0, 6000, 85.0)]})
    for workload, seconds in (("vgg", 40), ("resnet", 60)):
        study.table("C2", "N2", workload, 6000, [80.0])
        assert f"{seconds} (rate 0.1, seeds: 1)" in capsys.readouterr().out


def test_races_with_an_older_revision_of_the_workload_do_not_count(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(study, "FILE", tmp_path / "fabric.jsonl")
    setting = study.Setting("ring", "C2", "N2", "vgg", 0.1, 0, 6000, 240, 1)
    append(study.FILE, setting, {"scores": [(40.0, 6000, 85.0)]})
    monkeypatch.setattr(study.kind("vgg"), "revision", 2)
    append(study.FILE, dataclasses.replace(setting, revision=2), {"scores": [(60.0, 6000, 85.0)]})
    study.table("C2", "N2", "vgg", 6000, [80.0])
    assert "60 (rate 0.1, seeds: 1)" in capsys.readouterr().out
