"""Connectors with switches on the way: real switches, servers and control services in one process."""

import pytest
from control_fakes import FakeStore, eventually, in_threads
from control_processes import Process, Switch

from jaxina.control.rendezvous import Presence
from jaxina.control.topology import this_place
from jaxina.errors import InvalidArgumentError, MismatchError, NeverJoinedError, SwitchUnreachableError

NOBODY = "127.0.0.1:1"


@pytest.fixture
def switches():
    """A function that starts switches. They are stopped at the end."""
    made = []

    def start(**options):
        made.append(Switch(**options))
        return made[-1]

    yield start
    for one in made:
        one.stop()


@pytest.fixture
def started():
    """A function that makes processes that each name some switches. They are closed at the end."""
    made = []

    def start(*named, **settings):
        store = FakeStore()
        environ = [{"JAXINA_SWITCH": names} for names in named]
        processes = [
            Process(store, number, len(named), environ=one, **{"aggregator": "atp", **settings})
            for number, one in enumerate(environ)
        ]
        made.extend(processes)
        return processes

    yield start
    in_threads(*[lambda p=p: p.aggregators.leave("the test's end") for p in made])


def connected(processes):
    """What the connector of each process returns or raises, for the group of all."""
    group = list(range(len(processes)))
    return in_threads(*[lambda p=p: p.connector(group) for p in processes])


def test_the_switches_of_two_racks_and_the_core_combine(switches, started):
    core = switches(threads=2)
    racks = [switches(upstream=core.address) for _ in range(2)]
    processes = started(*[racks[worker % 2].address for worker in range(4)])
    parts = connected(processes)
    for worker, part in enumerate(parts):
        assert part.transport["switches"] == [("127.0.0.1", racks[worker % 2].plane.ports[0])] * 2
        assert part.transport["workers_per_link"] == 2
    assert eventually(lambda: all(one.jobs() == {parts[0].job} for one in (core, *racks)))
    in_threads(*[lambda p=p: p.connector.close(None) for p in processes])
    assert eventually(lambda: not any(one.jobs() for one in (core, *racks)))


def test_a_switch_that_all_workers_name_needs_no_upstream(switches, started):
    switch = switches(upstream=NOBODY)
    parts = connected(started(switch.address, switch.address))
    assert eventually(lambda: switch.jobs() == {parts[0].job})
    assert parts[0].transport["workers_per_link"] == 2


def test_all_workers_learn_that_switches_have_different_upstreams(switches, started):
    one, other = switches(upstream=NOBODY), switches()
    errors = connected(started(one.address, other.address))
    assert [type(error) for error in errors] == [InvalidArgumentError] * 2
    assert f"{one.address} (of worker 0) has {NOBODY}; {other.address} (of worker 1) has none" in errors[1].message


def test_all_workers_learn_that_the_core_is_not_there(switches, started):
    racks = [switches(upstream=NOBODY) for _ in range(2)]
    errors = connected(started(*[one.address for one in racks], join_timeout=0.5))
    assert [type(error) for error in errors] == [SwitchUnreachableError] * 2
    assert f"no switch answers at {NOBODY}" in errors[1].message and "--upstream" in errors[1].message


def test_workers_name_equally_many_switches(switches, started):
    one, other = switches(), switches()
    errors = connected(started(one.address, f"{one.address},{other.address}"))
    assert [type(error) for error in errors] == [MismatchError] * 2
    assert "switches=1" in errors[0].message and "2" in errors[0].message


def test_the_next_job_of_a_leader_needs_no_answer_of_the_switches(switches, started):
    core = switches()
    racks = [switches(upstream=core.address) for _ in range(2)]
    processes = started(*[one.address for one in racks], devices=2)
    in_threads(*[lambda p=p: p.connector([0, 2]) for p in processes])
    for one in (core, *racks):
        one.stop()
    parts = in_threads(*[lambda p=p: p.connector([1, 3]) for p in processes])
    assert [part.worker for part in parts] == [0, 1]


def test_a_worker_with_dedicated_servers_has_no_server_of_its_own(switches, started):
    server, switch = switches(), switches()
    processes = started(switch.address, switch.address, servers=server.address)
    parts = connected(processes)
    assert [process.aggregators._server for process in processes] == [None] * 2
    assert parts[1].transport["addresses"] == [("127.0.0.1", server.plane.ports[0])]
    assert server.jobs() == {parts[0].job}


def test_a_join_that_fails_ends_the_help_of_the_servers(switches, started):
    server, switch = switches(), switches()
    (first, _) = started(switch.address, switch.address, servers=server.address, join_timeout=0.5, timeout=5)
    agreement = first.aggregators.arrange([presence(first), presence(first)], devices=2)
    with pytest.raises(NeverJoinedError):
        first.aggregators.join((0, 1), 0, 2, agreement)
    assert eventually(lambda: not server.jobs())


def presence(process):
    return Presence(0, this_place(), process.configuration.shared, process.aggregators.switches)
