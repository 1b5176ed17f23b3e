"""What a job refuses or drops, and what all learn when it ends."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time

import numpy as np
import pytest
from control_fakes import eventually
from fabric_jobs import WAIT, kill, update_of

from jaxina.control import limits
from jaxina.control.grpc_options import channel
from jaxina.errors import (
    InvalidArgumentError,
    JobRejectedError,
    SwitchUnreachableError,
    TooManyWorkersError,
    WorkerLostError,
)
from jaxina.fabric.service import session as session_module
from jaxina.fabric.service.client import Client
from jaxina.fabric.service.daemon import SchedulerDaemon
from jaxina.fabric.service.fabric_pb2_grpc import FabricStub
from jaxina.fabric.service.model_server import ModelServer
from jaxina.fabric.service.session import ask_status
from jaxina.fabric.service.settings import JobSettings


def test_a_version_that_the_model_never_had_is_refused(fabric):
    job = fabric()
    client = job.worker(0)
    client.model(WAIT)
    with pytest.raises(InvalidArgumentError, match="is of version 5, but the model has 0"):
        client.submit(update_of(0, 0), 5).result(WAIT)
    assert client.submit(update_of(0, 0), 0).result(WAIT).committed, "the client can go on"


def test_an_outcome_that_nobody_waits_for_does_not_end_the_worker(fabric):
    """asyncio.wait_for, for example, cancels what took too long."""
    client = fabric().worker(0)
    client.model(WAIT)
    for version in (1, 0):  # one that is refused, and one that is committed
        assert not client.submit(update_of(0, version), version).cancel()
    client.finish(WAIT)
    assert client.submit(update_of(0, 2), 1).result(WAIT).committed


def test_a_worker_that_has_left_submits_nothing(fabric):
    client = fabric().worker(0)
    client.model(WAIT)
    client.close()
    for call in (lambda: client.submit(update_of(0, 0), 0), lambda: client.model(WAIT)):
        with pytest.raises(JobRejectedError, match="this worker has left the job"):
            call()


def test_too_old_updates_are_dropped_at_their_worker(fabric):
    job = fabric(delay_bound=1)
    client = job.worker(0)
    client.model(WAIT)
    assert client.submit(update_of(0, 0), 0).result(WAIT).committed
    outcome = client.submit(update_of(0, 1), 0).result(WAIT)
    assert not outcome.committed and outcome.reason == "it would break the delay bound"
    np.testing.assert_array_equal(job.server.model()[0], update_of(0, 0))


def test_all_learn_that_the_server_is_lost(fabric):
    job = fabric(rate=1000)
    client = job.worker(0)
    request = threading.Timer(0.2, kill, (job.server,))
    request.start()
    with pytest.raises(WorkerLostError, match="there is no replica of it"):
        client.model(WAIT)  # which would take more than a minute
    request.join()
    with pytest.raises(WorkerLostError, match="there is no replica of it"):
        client.model(WAIT)
    with pytest.raises(JobRejectedError, match="the job has ended"):
        job.worker(1)


def test_all_learn_that_the_scheduler_is_stopped(fabric):
    job = fabric(rate=1000)
    client = job.worker(0)
    ended = threading.Event()
    job.server._ended = ended.set
    job.daemon.stop()
    with pytest.raises(SwitchUnreachableError, match="was stopped"):
        client.model(WAIT)
    assert ended.wait(WAIT) and isinstance(job.server.error, SwitchUnreachableError)


def test_tls_is_not_suspected_when_the_connection_breaks(fabric, monkeypatch):
    asked = []
    monkeypatch.setattr(session_module, "why_refused", lambda *what: asked.append(what))
    client = fabric(rate=1000).worker(0)
    client._session._stream.cancel()
    with pytest.raises(SwitchUnreachableError, match="no scheduler answers"):
        client.model(WAIT)
    assert not asked, "who has joined uses TLS as the scheduler does"


def test_a_scheduler_with_a_token():
    with SchedulerDaemon(JobSettings(workers=1), "127.0.0.1:0", token="correct-horse-battery") as daemon:
        with pytest.raises(JobRejectedError, match="this scheduler needs a token"):
            Client(daemon.address, 0)
        with pytest.raises(JobRejectedError, match="this scheduler needs a token"):
            ask_status(daemon.address, WAIT, "another-horse-battery", None)
        Client(daemon.address, 0, token="correct-horse-battery").close()


def test_calls_of_an_address_are_limited(monkeypatch):
    monkeypatch.setattr(limits, "CALLS_PER_ADDRESS", (5, 1))
    with SchedulerDaemon(JobSettings(workers=1), "127.0.0.1:0") as daemon:

        def ask():
            return ask_status(daemon.address, WAIT, None, None)

        def join():
            with contextlib.suppress(TooManyWorkersError):
                Client(daemon.address, 1)

        def answered() -> bool:
            with contextlib.suppress(JobRejectedError):
                return bool(ask().hosts)
            return False

        for call in (ask, join):
            with pytest.raises(JobRejectedError, match=r"1 calls a second come from 127\.0\.0\.1"):
                [call() for _ in range(100)]
        assert eventually(answered, WAIT)


def test_strangers_who_never_join_are_limited(monkeypatch):
    monkeypatch.setattr(limits, "WAITING_PER_ADDRESS", 3)
    with SchedulerDaemon(JobSettings(workers=1), "127.0.0.1:0") as daemon, channel(daemon.address) as stranger:
        silence = threading.Event()
        calls = [FabricStub(stranger).Session(iter(silence.wait, True)) for _ in range(3)]
        assert eventually(lambda: daemon._service._entrance.waiting._total == 3, WAIT)
        with pytest.raises(JobRejectedError, match="has 3 hosts that have not joined here"):
            Client(daemon.address, 0)
        for call in calls:
            call.cancel()
        silence.set()
        assert eventually(lambda: daemon._service._entrance.waiting._total == 0, WAIT)
        Client(daemon.address, 0).close()
        assert eventually(lambda: daemon._service._entrance.sessions._total == 0, WAIT)


def test_nobody_there():
    begin = time.monotonic()
    with pytest.raises(SwitchUnreachableError, match=r"no scheduler answers at 127.0.0.1:1 .*jaxina fabric scheduler"):
        Client("127.0.0.1:1", 0, timeout=0.5)
    assert time.monotonic() - begin < WAIT
    with (
        SchedulerDaemon(JobSettings(workers=1), "127.0.0.1:0") as daemon,
        pytest.raises(InvalidArgumentError, match="the port is in use"),
    ):
        SchedulerDaemon(JobSettings(workers=1), daemon.address)


def test_who_gives_up_joining_calls_no_longer():
    """A call that went on would join once the scheduler answers, and hold the place of the user's second try."""

    def interrupt(*_):
        raise KeyboardInterrupt

    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            Client(f"{host}:{port}", 0, timeout=WAIT)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with socket.create_server((host, port)) as scheduler:
        scheduler.settimeout(1.0)  # twice the time that gRPC lets pass between two attempts
        with pytest.raises(TimeoutError):
            scheduler.accept()


def test_a_log_that_exists_does_not_cost_the_job_its_server(fabric, tmp_path):
    job = fabric(replica=True)
    with pytest.raises(InvalidArgumentError, match="cannot begin the log"):
        ModelServer(job.daemon.address, "127.0.0.1:0", np.zeros(3, np.float32), job.log)
    assert job.status().serving == "server"


def test_no_second_server_joins(fabric):
    job = fabric()
    with pytest.raises(JobRejectedError, match="takes no second one"):
        ModelServer(job.daemon.address, "127.0.0.1:0", np.zeros(3, np.float32))


def test_updates_need_a_model_first(fabric):
    with pytest.raises(InvalidArgumentError, match="get the model before"):
        fabric().worker(0).submit(update_of(0, 0), 0)
