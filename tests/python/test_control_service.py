"""The control service and its client, over real gRPC on loopback. The data plane is a fake."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from control_fakes import FakeDataPlane, FakeEngine, eventually, in_threads, interrupting

from jaxina import config
from jaxina._native import JobShape
from jaxina.control import client as client_module
from jaxina.control import control_pb2 as pb
from jaxina.control import control_pb2_grpc
from jaxina.control.client import SwitchClient
from jaxina.control.job_sessions import JobSessions
from jaxina.control.membership import Membership
from jaxina.control.server import ControlServer
from jaxina.errors import (
    InvalidArgumentError,
    JobRejectedError,
    RankTakenError,
    SwitchUnreachableError,
    SystemCallError,
    TooManyWorkersError,
    WorkerLostError,
)


@pytest.fixture
def data_plane():
    return FakeDataPlane()


@pytest.fixture
def server(data_plane):
    with ControlServer(data_plane, "127.0.0.1:0", ask_every=0) as running:
        yield running


@pytest.fixture
def client(server):
    with SwitchClient(server.address, timeout=5) as connected:
        yield connected


def create(client, workers=2, heartbeat_timeout=5.0, join_timeout=5.0):
    return client.create_job(
        devices=2 * workers,
        workers=workers,
        slots=64,
        block_size=256,
        blocks_per_chunk=1,
        join_timeout=join_timeout,
        heartbeat_timeout=heartbeat_timeout,
    )


class Worker:
    """A session whose aborts are recorded."""

    def __init__(self, client, grant, *ranks, heartbeat_timeout=5.0, secret=None):
        self.engine = FakeEngine()
        self.session = client.join(
            grant.job,
            grant.secret if secret is None else secret,
            ranks,
            heartbeat_timeout=heartbeat_timeout,
            statistics=self.engine.statistics,
            aborted=lambda *why: self.engine.abort(list(ranks), *why),
        )


def test_create_join_and_leave_reach_the_data_plane(client, data_plane):
    grant = create(client)
    assert grant.data_ports == data_plane.ports
    shape = JobShape(devices=4, workers=2, slots=64, block_size=256, blocks_per_chunk=1)
    assert data_plane.jobs[grant.job] == (grant.secret, shape)
    first, second = Worker(client, grant, 0), Worker(client, grant, 1)
    assert first.session.wait_until_complete(time.monotonic() + 5)
    assert second.session.wait_until_complete(time.monotonic() + 5)
    first.session.leave()
    second.session.leave()
    assert eventually(lambda: data_plane.removed == [grant.job])
    assert data_plane.aborted == {}
    assert first.engine.aborts == second.engine.aborts == [], "leaving in order is not a death"


def test_tls_is_not_suspected_after_the_join(data_plane, monkeypatch):
    """The question to a host that has died would last until its timeout, and the job would go on so long."""
    asked = []
    monkeypatch.setattr(client_module, "why_refused", lambda *what: asked.append(what))
    with ControlServer(data_plane, "127.0.0.1:0", ask_every=0) as server, SwitchClient(server.address, 5) as client:
        worker = Worker(client, create(client, workers=1), 0)
        server.stop()
        assert eventually(lambda: worker.engine.aborts) and not asked
        with pytest.raises(SwitchUnreachableError):
            client.status()
        assert asked, "a new call may meet a server that uses TLS"


def test_rank_taken_reaches_only_the_second(client, data_plane):
    grant = create(client)
    first = Worker(client, grant, 0)
    with pytest.raises(RankTakenError, match=f"pid {os.getpid()}"):
        Worker(client, grant, 0)
    Worker(client, grant, 1)
    assert first.session.wait_until_complete(time.monotonic() + 5)
    assert data_plane.aborted == {}


def test_too_many_workers(client):
    with pytest.raises(TooManyWorkersError):
        Worker(client, create(client), 2)
    with pytest.raises(TooManyWorkersError):
        create(client, workers=5000)


def test_what_the_data_plane_refuses_is_raised_and_forgotten(client, data_plane):
    data_plane.refuse_with = InvalidArgumentError("the pool is full")
    with pytest.raises(InvalidArgumentError, match="the pool is full"):
        create(client)
    assert list(client.status().jobs) == []


def test_wrong_secret_and_unknown_job(client):
    grant = create(client)
    with pytest.raises(JobRejectedError, match="secret"):
        Worker(client, grant, 0, secret=grant.secret ^ 1)
    with pytest.raises(JobRejectedError, match="secret"):
        client.who_is_missing(grant.job, grant.secret ^ 1)
    with pytest.raises(JobRejectedError, match="no job"):
        client.who_is_missing(grant.job + 1, grant.secret)


def test_who_is_missing(client, data_plane):
    grant = create(client, workers=4)
    worker = Worker(client, grant, 0, 2)
    assert not worker.session.wait_until_complete(time.monotonic() + 0.1)
    data_plane.awaited = [2]
    missing = client.who_is_missing(grant.job, grant.secret)
    assert list(missing.not_joined) == [1, 3] and list(missing.awaited) == [2]


def test_status_shows_everything_but_the_secret(client, data_plane):
    grant = create(client, heartbeat_timeout=0.4)
    workers = [Worker(client, grant, rank, heartbeat_timeout=0.4) for rank in range(2)]
    assert eventually(lambda: all(m.statistics for m in client.status().jobs[0].members))
    status = client.status()
    (job,) = status.jobs
    assert [member.rank for member in job.members] == [0, 1]
    assert job.members[0].pid == os.getpid() and job.members[0].statistics == {"collectives": 7}
    assert job.counters == {"updates": 10, "packets_sent": 20} and job.rejected == {"stale": 3}
    assert status.rejected == {"malformed": 2}
    assert str(grant.secret) not in str(status)
    assert "secret" not in {f.name for f in pb.JobStatus.DESCRIPTOR.fields}
    assert str(grant.secret) not in repr(grant)
    del workers


_VICTIM = """
import sys, time
from jaxina.control.client import SwitchClient
from jaxina.control.membership import Membership
address, job, secret = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
client = SwitchClient(address, 5)
client.join(job, secret, [1], heartbeat_timeout=float(sys.argv[4]), statistics=dict, aborted=print)
print("joined", flush=True)
time.sleep(60)
"""


@pytest.fixture
def victim():
    started = []

    def start(address, grant, heartbeat_timeout=5.0):
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                _VICTIM,
                address,
                str(grant.job),
                str(grant.secret),
                str(heartbeat_timeout),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == "joined\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_killed_worker_is_named_to_the_others_within_two_seconds(client, server, data_plane, victim):
    grant = create(client)
    survivor = Worker(client, grant, 0)
    process = victim(server.address, grant)
    assert survivor.session.wait_until_complete(time.monotonic() + 5)
    killed = time.monotonic()
    os.kill(process.pid, signal.SIGKILL)
    assert survivor.engine.aborted.wait(2)
    assert survivor.engine.when - killed < 2
    ((group, code, message),) = survivor.engine.aborts
    assert group == [0] and code == "WORKER_LOST"
    assert message.startswith("worker 1 (host ") and f"pid {process.pid}) died" in message
    assert data_plane.aborted[grant.job] == (code, message)
    with pytest.raises(WorkerLostError):
        survivor.session.wait_until_complete(time.monotonic())


def test_a_silent_worker_is_lost_after_the_heartbeat_timeout(client, server, victim):
    grant = create(client, heartbeat_timeout=1.0)
    survivor = Worker(client, grant, 0, heartbeat_timeout=1.0)
    process = victim(server.address, grant, heartbeat_timeout=1.0)
    stopped = time.monotonic()
    os.kill(process.pid, signal.SIGSTOP)
    assert survivor.engine.aborted.wait(4)
    assert 0.5 < survivor.engine.when - stopped < 3
    assert "silent" in survivor.engine.aborts[0][2]


def test_heartbeats_keep_an_idle_worker_alive(client):
    grant = create(client, workers=1, heartbeat_timeout=0.4)
    worker = Worker(client, grant, 0, heartbeat_timeout=0.4)
    assert not worker.engine.aborted.wait(1.5)
    worker.session.leave()


def test_a_worker_that_is_interrupted_while_it_joins_is_gone():
    service = control_pb2_grpc.AggregatorServicer()
    with interrupting(control_pb2_grpc.add_AggregatorServicer_to_server, service, "Session") as (address, over):
        client = SwitchClient(address, timeout=60)
        with pytest.raises(KeyboardInterrupt):
            client.join(7, 1, [0], heartbeat_timeout=5.0, statistics=dict, aborted=lambda *why: None)
        assert over.wait(5), "its heartbeats go on"
        client.close()


def test_a_worker_that_is_interrupted_while_it_waits_for_the_others_is_gone(client):
    def interrupt():
        raise KeyboardInterrupt

    grant = create(client, workers=3)
    other = Worker(client, grant, 1)
    agreement = {"job": grant.job, "secret": grant.secret}
    with pytest.raises(KeyboardInterrupt):
        JobSessions(config.resolve({}), dict).join(client, (0,), 0, 3, agreement, lambda *why: None, check=interrupt)
    assert other.engine.aborted.wait(5)
    ((_, code, message),) = other.engine.aborts
    assert code == "WORKER_LOST" and message.startswith("worker 0 ") and message.endswith("KeyboardInterrupt()")


def test_leaving_with_a_failure_aborts_the_others(client, data_plane):
    grant = create(client)
    first, second = Worker(client, grant, 0), Worker(client, grant, 1)
    second.session.leave("WORKER_LOST", "ended with ValueError: bad \udcff.png")  # a file's name with an odd byte
    assert first.engine.aborted.wait(2)
    assert r"ValueError: bad \udcff.png" in first.engine.aborts[0][2]
    assert grant.job in data_plane.aborted
    assert second.engine.aborts == []


def test_after_one_left_nothing_can_be_summed(client, monkeypatch):
    monkeypatch.setattr("jaxina.control.session.LEFT_GRACE", 0.2)
    grant = create(client)
    first, second = Worker(client, grant, 0), Worker(client, grant, 1)
    second.session.leave()
    assert first.engine.aborted.wait(2)
    assert first.engine.aborts[0][1] == "WORKER_LOST" and "worker 1" in first.engine.aborts[0][2]


def test_a_switch_that_stops_is_told_to_its_workers(data_plane):
    server = ControlServer(data_plane, "127.0.0.1:0")
    with SwitchClient(server.address, timeout=5) as client:
        grant = create(client)
        workers = [Worker(client, grant, rank) for rank in range(2)]
        server.stop()
        for worker in workers:
            assert worker.engine.aborted.wait(3)
            _, code, message = worker.engine.aborts[0]
            assert code == "SWITCH_UNREACHABLE" and "was stopped" in message, "no worker has died"
            assert server.address in message


def test_a_defect_while_deadlines_are_looked_at_ends_all_jobs(client, monkeypatch):
    """No deadline would hold any more, so nobody would be told of a worker that is lost."""
    grant = create(client)
    worker = Worker(client, grant, 0)

    def fail(self, now):
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(Membership, "expire", fail)
    assert worker.engine.aborted.wait(5)
    _, code, message = worker.engine.aborts[0]
    assert code == SystemCallError.code and "a defect" in message


def test_an_unreachable_switch_says_where_and_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    began = time.monotonic()
    with SwitchClient(address, timeout=1) as client:
        with pytest.raises(SwitchUnreachableError, match=f"{address}.*jaxina switch"):
            client.status()
        with pytest.raises(SwitchUnreachableError, match=address):
            client.join(1, 1, [0], heartbeat_timeout=5, statistics=dict, aborted=print)
    assert time.monotonic() - began < 5


def test_a_program_that_speaks_no_grpc_is_no_switch():
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        with SwitchClient(address, timeout=1) as client, pytest.raises(SwitchUnreachableError):
            client.status()


def test_a_port_in_use_is_a_clear_error(server, data_plane):
    with pytest.raises(InvalidArgumentError, match=f"cannot listen at {server.address}.*in use"):
        ControlServer(data_plane, server.address)


def test_a_job_that_nobody_joins_is_dropped(client, data_plane):
    grant = create(client, join_timeout=0.2)
    assert eventually(lambda: data_plane.removed == [grant.job], timeout=3)


def test_too_long_a_message_ends_its_own_job_only(client):
    grant, others = create(client), create(client, workers=1)
    first, second = Worker(client, grant, 0), Worker(client, grant, 1)
    other = Worker(client, others, 0)
    flood = pb.Heartbeat(statistics={f"name{number}": 2**60 for number in range(2000)})
    second.session._stream.say(pb.WorkerMessage(heartbeat=flood))
    assert first.engine.aborted.wait(2)
    assert re.search(r"worker 1 .* sent a message of \d+ bytes", first.engine.aborts[0][2])
    assert second.engine.aborted.wait(2) and not other.engine.aborts


def test_a_long_reason_is_cut_and_told(client):
    grant = create(client)
    first, second = Worker(client, grant, 0), Worker(client, grant, 1)
    second.session.leave("WORKER_LOST", "x" * 100_000)
    assert first.engine.aborted.wait(2)
    assert "xxx" in first.engine.aborts[0][2] and len(first.engine.aborts[0][2]) < 1200


def test_many_jobs_at_once_do_not_mix(client, data_plane):
    before = set(threading.enumerate())
    grants = [create(client) for _ in range(4)]
    workers = in_threads(*[lambda g=g, r=r: Worker(client, g, r) for g in grants for r in range(2)])
    assert all(w.session.wait_until_complete(time.monotonic() + 5) for w in workers)
    workers[0].session.leave("WORKER_LOST", "ended")
    assert workers[1].engine.aborted.wait(2)
    assert [bool(w.engine.aborts) for w in workers] == [False, True] + [False] * 6
    assert set(data_plane.aborted) == {grants[0].job}
    for worker in workers[1:]:
        worker.session.leave()
    assert eventually(lambda: sorted(data_plane.removed) == sorted(g.job for g in grants))
    assert eventually(lambda: set(threading.enumerate()) <= before), set(threading.enumerate()) - before


def test_a_data_plane_that_does_not_answer_is_a_typed_error(client, data_plane, monkeypatch):
    def fail(*_):
        raise SystemCallError("a thread of the switch has not answered for 5 s")

    grant = create(client)
    monkeypatch.setattr(data_plane, "statistics", fail)
    monkeypatch.setattr(data_plane, "missing", fail)
    for call in (client.status, lambda: client.who_is_missing(grant.job, grant.secret)):
        with pytest.raises(SystemCallError, match="has not answered"):
            call()
