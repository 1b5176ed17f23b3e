"""Connectors without a switch: real servers and control services in one process. Threads stand for the processes."""

import os
import threading
import time

import pytest
from control_fakes import FakeStore, eventually, in_threads
from control_processes import Process

from jaxina._native import JobShape
from jaxina.control.client import SwitchClient
from jaxina.control.rendezvous import Presence
from jaxina.control.topology import Place
from jaxina.errors import JobRejectedError, NeverJoinedError, WorkerLostError


@pytest.fixture
def started():
    """A function that makes processes. They are closed at the end."""
    made = []

    def start(count, **options):
        store = FakeStore()
        processes = [Process(store, number, count, **options) for number in range(count)]
        made.extend(processes)
        return processes

    yield start
    in_threads(*[lambda p=p: p.aggregators.leave("the test's end") for p in made])


def close_all(processes):
    return in_threads(*[lambda p=p: p.connector.close(None) for p in processes])


def presences(count):
    return [Presence(p, Place(f"host{p}", p, f"machine{p}"), {}) for p in range(count)]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_all_workers_learn_all_servers_and_every_server_has_the_job(started, host):
    processes = started(3, devices=2, host=host)
    group = list(range(6))
    parts = in_threads(*[lambda p=p: p.connector(group) for p in processes])
    ports = [process.server.ports[0] for process in processes]
    for worker, part in enumerate(parts):
        assert part.shape == JobShape(devices=6, workers=3, slots=128, block_size=256, blocks_per_chunk=1)
        assert (part.worker, part.job, part.secret) == (worker, parts[0].job, parts[0].secret)
        to = part.transport
        assert (to["kind"], to["at_workers"]) == ("udp", True)
        assert to["addresses"] == [(host, port) for port in ports]
        assert 0 < to["first_window"] <= 128
    assert [process.jobs for process in processes] == [{parts[0].job}] * 3
    close_all(processes)
    assert [process.engine.aborts for process in processes] == [[]] * 3


def test_only_processes_that_lead_run_a_control_service(started):
    processes = started(3)
    in_threads(*[lambda p=p: p.connector([0, 1, 2]) for p in processes])
    in_threads(*[lambda p=p: p.connector([1, 2]) for p in processes[1:]])
    assert [process.aggregators._control.is_serving for process in processes] == [True, True, False]
    close_all(processes)


def test_jobs_of_different_leaders_never_share_an_id(started):
    processes = started(4)
    groups = [(0, 1), (2, 3), (0, 2), (1, 3), (0, 1, 2, 3)]
    jobs = []
    for group in groups:
        parts = in_threads(*[lambda p=p, g=group: processes[p].connector(g) for p in group])
        jobs.append(parts[0].job)
    assert len(set(jobs)) == len(groups)
    assert processes[3].jobs == {jobs[1], jobs[3], jobs[4]}
    began = time.monotonic()
    close_all(processes)
    assert time.monotonic() - began < 5, "processes that leave several jobs do not wait for each other in a circle"


def test_a_process_that_leaves_serves_until_the_others_have_left(started):
    processes = started(3)
    parts = in_threads(*[lambda p=p: p.connector([0, 1, 2]) for p in processes])
    leaving = threading.Thread(target=processes[0].connector.close, args=(None,))
    leaving.start()
    assert eventually(lambda: processes[1].aggregators._sessions._sessions[(0, 1, 2)]._left == {0})
    assert processes[0].jobs == {parts[0].job} and leaving.is_alive()
    close_all(processes[1:])
    leaving.join(5)
    assert not leaving.is_alive()
    assert [process.engine.aborts for process in processes] == [[]] * 3


def test_a_process_that_leaves_does_not_wait_forever_for_the_others(started, monkeypatch):
    monkeypatch.setattr("jaxina.control.job_sessions.LEFT_GRACE", 0.2)
    processes = started(2)
    in_threads(*[lambda p=p: p.connector([0, 1]) for p in processes])
    processes[0].connector.close(None)
    (abort,) = processes[1].engine.aborts
    assert abort[1] == "WORKER_LOST" and "worker 0 called jaxina.shutdown()" in abort[2]


def test_an_error_of_one_process_ends_the_job_at_all_workers_and_servers(started):
    processes = started(3)
    in_threads(*[lambda p=p: p.connector([0, 1, 2]) for p in processes])
    processes[2].connector.ended([0, 1, 2], "MISMATCH", "devices differ")
    for process in processes[:2]:
        assert process.engine.aborted.wait(2)
        ((group, code, message),) = process.engine.aborts
        assert (group, code) == ([0, 1, 2], "MISMATCH")
        assert "worker 2" in message and message.endswith("devices differ")


def test_nobody_waits_for_the_others_of_a_job_that_has_ended(started):
    processes = started(2)
    in_threads(*[lambda p=p: p.connector([0, 1]) for p in processes])
    processes[1].connector.ended([0, 1], "MISMATCH", "devices differ")
    assert processes[0].engine.aborted.wait(2)
    began = time.monotonic()
    processes[0].connector.close(None)
    assert time.monotonic() - began < 5


def test_a_process_that_fails_is_a_lost_worker(started):
    processes = started(2)
    in_threads(*[lambda p=p: p.connector([0, 1]) for p in processes])
    processes[0].connector.close("ValueError: bad data")
    assert processes[1].engine.aborted.wait(2)
    ((_, code, message),) = processes[1].engine.aborts
    assert code == "WORKER_LOST" and message.endswith(f"pid {os.getpid()}): ended with ValueError: bad data")


def test_the_end_of_the_control_service_is_the_end_of_worker_0(started):
    processes = started(3)
    in_threads(*[lambda p=p: p.connector([0, 1, 2]) for p in processes])
    control = processes[0].aggregators._control._server
    control._service.end_all = lambda error: None  # as after a kill, nobody is told
    control.stop()
    for process in processes[1:]:
        assert process.engine.aborted.wait(2)
        ((_, code, message),) = process.engine.aborts
        assert code == "WORKER_LOST"
        assert message.startswith("worker 0 (host ") and f"pid {os.getpid()}" in message


def test_a_process_that_ends_before_it_joins_is_not_waited_for(started):
    (process,) = started(1, join_timeout=20)
    agreement = process.aggregators.arrange(presences(3), devices=3)
    process.ended.add(2)
    began = time.monotonic()
    with pytest.raises(WorkerLostError, match=r"worker 2 \(process 2\) ended before it joined"):
        process.aggregators.join((0, 1, 2), 0, 3, agreement)
    assert time.monotonic() - began < 2


def test_a_leader_that_is_gone_before_the_others_join_is_a_lost_worker(started):
    leader, follower = started(2)
    agreement = leader.aggregators.arrange(presences(2), devices=2)
    leader.aggregators._control._server.stop()
    began = time.monotonic()
    with pytest.raises(WorkerLostError, match=r"worker 0 \(host host0, pid 0\) is gone"):
        follower.aggregators.join((0, 1), 1, 2, agreement)
    assert time.monotonic() - began < 2


def test_never_joined_names_the_worker(started):
    (process,) = started(1, join_timeout=0.5)
    agreement = process.aggregators.arrange(presences(3), devices=3)
    with pytest.raises(NeverJoinedError, match="worker 1, 2 of 3"):
        process.aggregators.join((0, 1, 2), 0, 3, agreement)


def test_the_control_service_asks_for_the_token(started):
    token = "a-token-of-the-job"
    processes = started(2, environ={"JAXINA_TOKEN": token})
    parts = in_threads(*[lambda p=p: p.connector([0, 1]) for p in processes])
    address = processes[0].aggregators._control.address
    with SwitchClient(address, 5) as stranger, pytest.raises(JobRejectedError, match="token"):
        stranger.status()
    with SwitchClient(address, 5, token) as friend:
        assert [job.job for job in friend.status().jobs] == [parts[0].job]
    close_all(processes)
