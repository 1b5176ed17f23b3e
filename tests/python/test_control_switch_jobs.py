"""Connectors of several processes (threads) that meet at a real control service with a fake data
plane.
"""

import os
import socket
import time

import pytest
from control_fakes import (
    Endpoint,
    FakeDataPlane,
    FakeEngine,
    FakeStore,
    FakeTopology,
    eventually,
    in_threads,
)

from jaxina import config
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
        self.aggregators = SwitchAggregators(
            configuration, self.engine.abort, self.engine.statistics
        )
        self.connector = Connector(
            configuration,
            FakeTopology(number, processes, devices),
            self.aggregators,
            lambda: store,
            1,
            Endpoint,
        )


def presences(count):
    return [Presence(p, Place(f"host{p}", p, f"machine{p}"), {}) for p in range(count)]


def test_two_processes_with_two_devices_each_are_two_workers(server, data_plane):
    store = FakeStore()
    processes = [Process(server.address, store, p, 2, devices=2) for p in range(2)]
    endpoints = in_threads(*[lambda p=p: p.connector([0, 1, 2, 3]) for p in processes])
    ((job, made),) = data_plane.jobs.items()
    assert made == {
        "secret": endpoints[0].secret,
        "workers": 2,
        "slots": config.resolve({}, aggregator="udp").slots,
        "block_size": 256,
        "blocks_per_chunk": 1,
    }
    for worker, endpoint in enumerate(endpoints):
        assert (endpoint.transport, endpoint.worker, endpoint.workers, endpoint.job) == (
            "udp",
            worker,
            2,
            job,
        )
        assert (endpoint.devices, endpoint.local) == (4, [2 * worker, 2 * worker + 1])
        assert (endpoint.address, endpoint.ports, endpoint.secret) == (
            "127.0.0.1",
            [51001, 51002],
            made["secret"],
        )
    for process in processes:
        process.connector.close(None)
    assert eventually(lambda: data_plane.removed == [job])
    assert [process.engine.aborts for process in processes] == [[], []]


def test_one_process_alone_needs_no_store_and_no_job(server, data_plane):
    process = Process(server.address, None, 0, 1, devices=2)
    assert process.connector([0, 1]).workers == 1
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
    """The other process announces itself, then gets stuck before it joins."""
    process = Process(server.address, None, 0, 1, join_timeout=0.5)
    agreement = process.aggregators.arrange(presences(3))
    began = time.monotonic()
    with pytest.raises(NeverJoinedError, match="worker 1, 2 of 3"):
        process.aggregators.join((0, 1, 2), 0, 3, agreement)
    assert time.monotonic() - began < 3


def test_one_that_gives_up_waiting_tells_the_others(server):
    patient = Process(server.address, None, 0, 1, join_timeout=20)
    hasty = Process(server.address, None, 0, 1, join_timeout=0.5)
    agreement = patient.aggregators.arrange(presences(3))
    errors = in_threads(
        *[
            lambda r=r, p=p: p.aggregators.join((0, 1, 2), r, 3, agreement)
            for r, p in enumerate((patient, hasty))
        ]
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
    with pytest.raises(SwitchUnreachableError, match="no-such-host.invalid:5"):
        Process("no-such-host.invalid:5", None, 0, 1)
