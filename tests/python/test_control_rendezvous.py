"""Processes meet through a key-value store, by the rendezvous and the connector. Threads stand for the processes."""

import dataclasses
import functools
import time

import pytest
from control_fakes import FakeStore, FakeTopology, in_threads

from jaxina import config
from jaxina.control.connector import Connector, EmbeddedAggregators
from jaxina.control.rendezvous import Presence, Rendezvous
from jaxina.control.topology import Place
from jaxina.errors import (
    InvalidArgumentError,
    MismatchError,
    NeverJoinedError,
    ShutDownError,
    TooManyWorkersError,
    WorkerLostError,
)


def meet(
    store,
    process,
    owners,
    timeout=5.0,
    settings=None,
    agree=lambda everybody: {"job": 7},
    closing=lambda: False,
):
    me = Presence(process, Place(f"host{process}", process, "machine"), settings or {"slots": 4})
    return Rendezvous(store, "prefix", owners, timeout, closing).meet(me, agree)


def test_all_get_what_the_leader_arranged():
    store, seen = FakeStore(), []

    def agree(everybody):
        seen.append([presence.process for presence in everybody])
        return {"job": 7}

    results = in_threads(*[lambda p=p: meet(store, p, [2, 0, 1, 2], agree=agree) for p in range(3)])
    assert results == [{"job": 7}] * 3
    assert seen == [[2, 0, 1]], "the process of member 0 leads, once"


def test_a_process_that_never_comes_is_named_with_its_workers_in_every_other():
    store, owners = FakeStore(), [0, 0, 1, 1, 2, 2]
    began = time.monotonic()
    results = in_threads(*[lambda p=p: meet(store, p, owners, timeout=0.5) for p in (0, 2)])
    assert time.monotonic() - began < 3
    for error in results:
        assert isinstance(error, NeverJoinedError)
        assert "workers 2, 3 of 6 did not join within 0.5 s: process 1 " in error.message


def test_a_follower_that_gives_up_before_its_leader_names_the_same_process_once():
    store = FakeStore()
    store.set("prefix/process/0", "the leader came, and has not said anything yet")
    (error,) = in_threads(lambda: meet(store, 2, [0, 0, 1, 1, 2, 2], timeout=0.3))
    assert isinstance(error, NeverJoinedError)
    assert "workers 2, 3 of 6 did not join within 0.3 s: process 1 never" in error.message


def test_a_missing_leader_is_named():
    (error,) = in_threads(lambda: meet(FakeStore(), 1, [0, 1], timeout=0.3))
    assert isinstance(error, NeverJoinedError) and "worker 0 of 2" in error.message


def test_a_late_process_is_waited_for():
    store = FakeStore()

    def late():
        time.sleep(0.5)
        return meet(store, 1, [0, 1])

    assert in_threads(lambda: meet(store, 0, [0, 1]), late) == [{"job": 7}] * 2


def test_different_settings_are_a_mismatch_in_all():
    store = FakeStore()
    results = in_threads(*[lambda p=p: meet(store, p, [0, 1, 2], settings={"slots": 4 + (p == 2)}) for p in range(3)])
    for error in results:
        assert isinstance(error, MismatchError)
        assert "process 0 has slots=4 but process 2 has 5" in error.message


@pytest.mark.parametrize(
    "raised,code",
    [(TooManyWorkersError("too many"), "TOO_MANY_WORKERS"), (RuntimeError("odd"), "SYSTEM")],
)
def test_what_fails_in_the_leader_fails_in_all(raised, code):
    store = FakeStore()

    def agree(_):
        raise raised

    leader, follower = in_threads(*[lambda p=p: meet(store, p, [0, 1], agree=agree) for p in range(2)])
    assert leader is raised
    assert follower.code == code and str(raised.args[-1]).rpartition(": ")[2] in follower.message


def test_shutdown_ends_the_wait():
    began = time.monotonic()
    (error,) = in_threads(lambda: meet(FakeStore(), 0, [0, 1], timeout=30, closing=lambda: True))
    assert isinstance(error, ShutDownError) and time.monotonic() - began < 2


def connector(store, process, processes, devices=1, incarnation=1, aggregators=None, ended=set, **settings):
    configuration = config.resolve({}, **{"join_timeout": 2, "timeout": 2, **settings})
    return Connector(
        configuration,
        FakeTopology(process, processes, devices),
        aggregators or EmbeddedAggregators(),
        lambda: store,
        ended,
        incarnation,
    )


def test_a_process_that_has_ended_is_not_waited_for():
    began = time.monotonic()
    store, gone = FakeStore(), set()

    def ends_soon():
        time.sleep(0.5)
        gone.add(2)

    first, second, _ = in_threads(
        lambda: connector(store, 0, 3, ended=lambda: gone, timeout=30)([0, 1, 2]),
        lambda: connector(store, 1, 3, ended=lambda: gone, timeout=30)([0, 1, 2]),
        ends_soon,
    )
    assert time.monotonic() - began < 3
    for error in (first, second):
        assert isinstance(error, WorkerLostError) and "worker 2 (process 2) ended" in error.message


def test_the_first_sum_waits_as_long_as_any_other():
    began = time.monotonic()
    (error,) = in_threads(lambda: connector(FakeStore(), 0, 2, join_timeout=30, timeout=1)([0, 1]))
    assert isinstance(error, NeverJoinedError) and "JAXINA_TIMEOUT" in error.message
    assert time.monotonic() - began < 5


def test_a_process_alone_needs_nobody():
    part = connector(None, 0, 1, devices=4, slots=3, aggregators=object())([0, 1, 2, 3])
    assert (part.shape.workers, part.worker) == (1, 0)
    assert (part.shape.devices, part.local) == (4, [0, 1, 2, 3])
    assert part.transport == {"kind": "embedded", "segment": ""}
    assert (part.shape.slots, part.shape.block_size) == (3, 256)


def test_processes_share_a_named_segment():
    store = FakeStore()
    connectors = [connector(store, p, 2, devices=2) for p in range(2)]
    parts = in_threads(*[lambda c=c: c([0, 1, 2, 3]) for c in connectors])
    (segment,) = {p.transport["segment"] for p in parts}
    assert segment.startswith("jaxina-") and len(segment) > 20
    assert len({p.secret for p in parts}) == 1


def test_every_process_is_one_worker_whatever_the_order_of_its_devices():
    store = FakeStore()
    connectors = [connector(store, p, 2, devices=2) for p in range(2)]
    parts = in_threads(*[lambda c=c: c([2, 0, 3, 1]) for c in connectors])
    assert [(p.worker, p.shape.workers) for p in parts] == [(1, 2), (0, 2)]
    assert [(p.shape.devices, p.local) for p in parts] == [(4, [1, 3]), (4, [0, 2])]


def test_groups_and_incarnations_do_not_meet_each_other():
    store, segments = FakeStore(), []
    for incarnation in (1, 2):
        pair = [connector(store, p, 4, incarnation=incarnation) for p in range(4)]
        for group in ([0, 1], [1, 0], [2, 3], [0, 1, 2, 3]):
            parts = in_threads(*[functools.partial(pair[d], group) for d in group])
            (segment,) = {p.transport["segment"] for p in parts}
            segments.append(segment)
    assert len(set(segments)) == 8


def test_a_missing_process_is_named_by_its_worker():
    store = FakeStore()
    there = [connector(store, p, 3, devices=2) for p in (0, 2)]
    errors = in_threads(*[lambda c=c: c([0, 1, 2, 3, 4, 5]) for c in there])
    assert all(isinstance(error, NeverJoinedError) for error in errors)
    assert all("worker 1 of 3" in error.message for error in errors)


def test_different_configurations_are_a_mismatch():
    store = FakeStore()
    pair = [connector(store, p, 2, block_size=256 << p) for p in range(2)]
    errors = in_threads(*[lambda m=m: pair[m]([0, 1]) for m in range(2)])
    assert all(isinstance(error, MismatchError) and "block_size" in error.message for error in errors)


def test_two_hosts_with_one_name_are_an_error_in_all():
    store = FakeStore()

    def come(process):
        me = Presence(process, Place("node", process, f"machine{process}"), {})
        return Rendezvous(store, "prefix", [0, 1], 5.0).meet(me, lambda everybody: {"job": 7})

    for error in in_threads(*[functools.partial(come, process) for process in range(2)]):
        assert isinstance(error, InvalidArgumentError)
        assert "process 0 (pid 0) and process 1 (pid 1) run on two hosts that have one name, node" in error.message
        assert "hostnamectl hostname NAME" in error.message


def test_embedded_needs_one_host():
    places = [Presence(p, Place(f"host{p}", p, f"machine{p}"), {}) for p in range(2)]
    with pytest.raises(InvalidArgumentError, match=r"host0, host1.*udp"):
        EmbeddedAggregators().arrange(places, devices=2)


def test_too_many_workers():
    with pytest.raises(TooManyWorkersError, match="1025"):
        connector(None, 0, 1, devices=2000)(list(range(1025)))


def test_workers_drop_different_packets():
    store = FakeStore()
    settings = dict(aggregator="udp", loss=0.5, loss_seed=2**64 - 1)
    pair = [connector(store, p, 2, **settings) for p in range(2)]
    parts = in_threads(*[lambda c=c: c([0, 1]) for c in pair])
    assert [p.transport["loss"] for p in parts] == [0.5, 0.5]
    assert [p.transport["loss_seed"] for p in parts] == [2**64 - 1, 0]


def test_an_interrupted_connector_stops_waiting():
    one = connector(FakeStore(), 0, 2)
    one._configuration = dataclasses.replace(one._configuration, timeout=60)
    one.interrupt()
    (error,) = in_threads(lambda: one([0, 1]))
    assert isinstance(error, ShutDownError)
