"""Connectors meet at a real control service with a fake data plane. Threads stand for the processes."""

import os
import socket
import time

import pytest
from control_fakes import (
    FakeDataPlane,
    FakeEngine,
    FakeStore,
    FakeTopology,
    eventually,
    in_threads,
)

from jaxina import config
from jaxina._native import JobShape
from jaxina.control import limits, switch_address
from jaxina.control.connector import Connector
from jaxina.control.rendezvous import Presence
from jaxina.control.server import ControlServer
from jaxina.control.switch_jobs import SwitchAggregators
from jaxina.control.topology import Place
from jaxina.errors import NeverJoinedError, SwitchUnreachableError, TooManyWorkersError


@pytest.fixture
def data_plane():
    return FakeDataPlane()


@pytest.fixture
def server(data_plane):
    with ControlServer(data_plane, "127.0.0.1:0") as running:
        yield running


class Process:
    def __init__(self, address, store, number, processes, devices=1, **settings):
        settings.setdefault("join_timeout", 5)
        configuration = config.resolve({}, aggregator="udp", switch=address, **settings)
        self.engine = FakeEngine()
        self.aggregators = SwitchAggregators(configuration, self.engine.abort, self.engine.statistics)
        self.connector = Connector(
            configuration,
            FakeTopology(number, processes, devices),
            self.aggregators,
            lambda: store,
            set,
            1,
        )


def presences(count):
    return [Presence(p, Place(f"host{p}", p, f"machine{p}"), {}) for p in range(count)]


def test_two_processes_with_two_devices_each_are_two_workers(server, data_plane):
    store = FakeStore()
    processes = [Process(server.address, store, p, 2, devices=2) for p in range(2)]
    parts = in_threads(*[lambda p=p: p.connector([0, 1, 2, 3]) for p in processes])
    ((job, (secret, shape)),) = data_plane.jobs.items()
    slots = config.resolve({}, aggregator="udp").slots
    assert shape == JobShape(devices=4, workers=2, slots=slots, block_size=256, blocks_per_chunk=1)
    for worker, part in enumerate(parts):
        assert part.shape == shape
        assert (part.worker, part.job, part.secret) == (worker, job, secret)
        assert part.local == [2 * worker, 2 * worker + 1]
        to = part.transport
        assert (to["kind"], to["addresses"]) == ("udp", [("127.0.0.1", 51001), ("127.0.0.1", 51002)])
        assert not to["at_workers"]
    for process in processes:
        process.connector.close(None)
    assert eventually(lambda: data_plane.removed == [job])
    assert [process.engine.aborts for process in processes] == [[], []]


def test_the_switch_learns_the_devices_and_the_workers_the_window(server, data_plane):
    process = Process(server.address, None, 0, 1)
    agreement = process.aggregators.arrange(presences(3), devices=12)
    (job,) = server._service._membership.jobs.values()
    assert (job.spec.shape.devices, job.spec.shape.workers) == (12, 3)
    assert agreement["first_window"] == data_plane.slots_that_fit(job.spec.shape) == 32
    process.connector.close(None)


def test_a_group_of_several_devices_per_process_says_how_many(server, data_plane):
    store = FakeStore()
    processes = [Process(server.address, store, p, 2, devices=3) for p in range(2)]
    in_threads(*[lambda p=p: p.connector(range(6)) for p in processes])
    (job,) = server._service._membership.jobs.values()
    assert (job.spec.shape.devices, job.spec.shape.workers) == (6, 2)
    for process in processes:
        process.connector.close(None)


def test_the_leader_joins_as_soon_as_it_has_the_job(server, data_plane, monkeypatch):
    """A job that nobody has joined is dropped after a short time. So the leader must not wait for slow processes."""
    monkeypatch.setattr(limits, "UNJOINED_LIFE", 1.0)
    store = FakeStore()
    processes = [Process(server.address, store, p, 2, join_timeout=20) for p in range(2)]
    late = processes[1].aggregators.join

    def join(*arguments):
        time.sleep(1.5)
        return late(*arguments)

    monkeypatch.setattr(processes[1].aggregators, "join", join)
    parts = in_threads(*[lambda p=p: p.connector([0, 1]) for p in processes])
    assert [part.worker for part in parts] == [0, 1]
    for process in processes:
        process.connector.close(None)


def test_one_process_alone_needs_no_store_and_no_job(server, data_plane):
    process = Process(server.address, None, 0, 1, devices=2)
    assert process.connector([0, 1]).shape.workers == 1
    assert data_plane.jobs == {}
    process.connector.close(None)


def test_what_only_one_process_has_seen_ends_the_job_for_all(server):
    store = FakeStore()
    processes = [Process(server.address, store, p, 2, devices=2) for p in range(2)]
    in_threads(*[lambda p=p: p.connector([0, 1, 2, 3]) for p in processes])
    processes[1].connector.ended([0, 1, 2, 3], "MISMATCH", "devices 2 and 3 differ")
    assert processes[0].engine.aborted.wait(2)
    ((group, code, message),) = processes[0].engine.aborts
    assert (group, code) == ([0, 1, 2, 3], "MISMATCH")
    assert "worker 1" in message and message.endswith("devices 2 and 3 differ")
    processes[1].connector.ended([0, 1, 2, 3], "MISMATCH", "told already")
    assert processes[1].engine.aborts == []
    for process in processes:
        process.connector.close(None)


def test_a_failed_process_aborts_the_groups_of_the_others(server):
    store = FakeStore()
    processes = [Process(server.address, store, p, 2) for p in range(2)]
    in_threads(*[lambda m=m: processes[m].connector([0, 1]) for m in range(2)])
    processes[1].connector.close("ValueError: bad data")
    assert processes[0].engine.aborted.wait(2)
    ((group, code, message),) = processes[0].engine.aborts
    assert group == [0, 1] and code == "WORKER_LOST"
    assert message.endswith(f"pid {os.getpid()}): ended with ValueError: bad data")
    processes[0].connector.close(None)


def test_never_joined_at_the_switch_names_the_worker(server):
    """Two of the three processes are known, but never join."""
    process = Process(server.address, None, 0, 1, join_timeout=0.5)
    agreement = process.aggregators.arrange(presences(3), devices=3)
    began = time.monotonic()
    with pytest.raises(NeverJoinedError, match="worker 1, 2 of 3"):
        process.aggregators.join((0, 1, 2), 0, 3, agreement)
    assert time.monotonic() - began < 3


def test_one_that_gives_up_waiting_tells_the_others(server):
    patient = Process(server.address, None, 0, 1, join_timeout=20)
    hasty = Process(server.address, None, 0, 1, join_timeout=0.5)
    agreement = patient.aggregators.arrange(presences(3), devices=3)
    errors = in_threads(
        *[lambda r=r, p=p: p.aggregators.join((0, 1, 2), r, 3, agreement) for r, p in enumerate((patient, hasty))]
    )
    assert [type(error) for error in errors] == [NeverJoinedError, NeverJoinedError]
    assert "worker 2 of 3" in errors[0].message


def test_too_many_workers_for_the_switch_fails_in_all(server, data_plane):
    data_plane.refuse_with = TooManyWorkersError("this switch serves 1 worker")
    store = FakeStore()
    processes = [Process(server.address, store, p, 2) for p in range(2)]
    errors = in_threads(*[lambda m=m: processes[m].connector([0, 1]) for m in range(2)])
    assert all(isinstance(e, TooManyWorkersError) and "1 worker" in e.message for e in errors)


def test_no_switch_is_found_out_at_once():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(SwitchUnreachableError, match=address):
        Process(address, None, 0, 1, join_timeout=0.5)


def test_an_unknown_host_is_named():
    with pytest.raises(SwitchUnreachableError, match=r"no-such-host\.invalid:5"):
        Process("no-such-host.invalid:5", None, 0, 1)


def test_of_several_addresses_the_one_that_answers_is_taken():
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        address = f"localhost:{server.getsockname()[1]}"
        assert switch_address.answering(["127.0.0.1", "::1"], address) == "::1"
        assert switch_address.answering(["::1", "127.0.0.1"], address) == "::1"
