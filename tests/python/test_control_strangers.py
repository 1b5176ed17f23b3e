"""Strangers at the real control service: their limits, while a job goes on, and the token that keeps them out."""

import contextlib
import dataclasses
import threading
import time

import grpc
import pytest
from control_fakes import FakeDataPlane, FakeEngine, eventually

from jaxina.control import control_pb2 as pb
from jaxina.control import control_pb2_grpc, limits
from jaxina.control.bucket import Buckets
from jaxina.control.client import SwitchClient
from jaxina.control.data_plane import QueuePairs
from jaxina.control.server import ControlServer
from jaxina.control.typed_status import METADATA_KEY
from jaxina.errors import JobRejectedError

TOKEN = "correct-horse-battery"


@pytest.fixture
def data_plane():
    return FakeDataPlane()


@pytest.fixture
def server(data_plane):
    with ControlServer(data_plane, "127.0.0.1:0") as running:
        yield running


@pytest.fixture
def client(server):
    with SwitchClient(server.address, timeout=5) as connected:
        yield connected


def create(client, **changes):
    shape = dict(devices=1, workers=1, slots=64, block_size=256, blocks_per_chunk=1)
    return client.create_job(**{**shape, **changes}, join_timeout=60, heartbeat_timeout=60)


def join(client, grant, engine=None):
    engine = engine or FakeEngine()
    return client.join(
        grant.job,
        grant.secret,
        [0],
        heartbeat_timeout=60,
        statistics=dict,
        aborted=lambda *why: engine.abort([0], *why),
    )


@contextlib.contextmanager
def stub_of(server):
    with grpc.insecure_channel(server.address) as channel:
        yield control_pb2_grpc.AggregatorStub(channel)


@contextlib.contextmanager
def saying_nothing():
    """A context with a function that makes requests for a stream. They have no message and stay open until it ends."""
    over = threading.Event()

    def requests():
        over.wait()
        yield from ()

    try:
        yield requests
    finally:
        over.set()


def refusal_of(call):
    """Returns the error code with which a call was refused, and the error."""
    with pytest.raises(grpc.RpcError) as caught:
        next(iter(call))
    return dict(caught.value.trailing_metadata()).get(METADATA_KEY), caught.value


# ---- without a token


def test_hoarding_jobs_ends_and_a_joined_job_goes_on(client, data_plane, monkeypatch):
    engine = FakeEngine()
    ours = create(client)
    session = join(client, ours, engine)
    for _ in range(limits.UNJOINED_PER_ADDRESS):
        create(client)
    with pytest.raises(JobRejectedError, match=r"127\.0\.0\.1 has 64 jobs that nobody"):
        create(client)
    monkeypatch.setattr(limits, "UNJOINED_LIFE", 1.0)
    assert eventually(lambda: list(data_plane.jobs) == [ours.job])
    create(client)
    assert not engine.aborts
    session.leave()


def test_a_flood_of_status_and_who_is_missing_asks_the_data_plane_seldom(client, data_plane):
    grant = create(client)
    session = join(client, grant)
    began = time.monotonic()
    for _ in range(300):
        client.status()
        client.who_is_missing(grant.job, grant.secret)
    most = 1 + (time.monotonic() - began) / limits.ASK_EVERY
    assert 0 < data_plane.asked <= most and 0 < len(data_plane.asked_for) <= most
    session.leave()


def test_streams_that_never_join_are_bounded(server, client, monkeypatch):
    monkeypatch.setattr(limits, "JOIN_WITHIN", 1.5)
    grant = create(client)
    with stub_of(server) as stub, saying_nothing() as silent:
        waiting = [stub.Session(silent()) for _ in range(4)]
        limit = server._service._entrance.waiting
        assert eventually(lambda: limit._total == 4)
        monkeypatch.setattr(limit, "_per_address", 4)
        code, error = refusal_of(stub.Session(silent()))
        assert code == "JOB_REJECTED" and "4 sessions that have not joined" in error.details()
        for call in waiting:
            assert refusal_of(call)[0] == "INVALID_ARGUMENT"
        assert limit._total == 0
    join(client, grant).leave()
    assert eventually(lambda: server._service._entrance.sessions._total == 0)


def test_calls_and_joins_in_a_loop_are_refused(server, client):
    grant = create(client)
    server._service._entrance.calls._calls = Buckets(3, 0.001)
    client.status()
    for _ in range(2):
        with pytest.raises(JobRejectedError, match="wrong secret"):
            join(client, dataclasses.replace(grant, secret=grant.secret ^ 1))
    with pytest.raises(JobRejectedError, match=r"calls a second come from 127\.0\.0\.1"):
        join(client, grant)
    with pytest.raises(JobRejectedError, match=r"calls a second come from 127\.0\.0\.1"):
        client.status()


def test_a_message_larger_than_any_of_ours_is_not_taken(server, client):
    slots = 65535
    largest = QueuePairs("127.0.0.1", 65535, 4096, (2**24 - 1,) * (slots + 1), 2**24 - 1, 2**32 - 1, 2**64 - 1)
    grant = create(client, slots=slots, block_size=8)
    session = join(client, grant)
    client.connect_queue_pairs(grant.job, grant.secret, 0, largest)
    worker = pb.QueuePairs(qpns=[2**24 - 1] * (2 * slots))
    with stub_of(server) as stub, pytest.raises(grpc.RpcError, match="larger than max"):
        stub.ConnectQueuePairs(pb.ConnectQueuePairsRequest(worker=worker))
    session.leave()


def test_a_job_without_its_devices_is_refused(server):
    with stub_of(server) as stub, pytest.raises(grpc.RpcError, match=r"devices of a job .* not 0") as caught:
        stub.CreateJob(
            pb.CreateJobRequest(
                workers=2,
                slots=1,
                block_size=8,
                blocks_per_chunk=1,
                join_timeout_s=1,
                heartbeat_timeout_s=1,
            )
        )
    assert dict(caught.value.trailing_metadata())[METADATA_KEY] == "INVALID_ARGUMENT"


# ---- with a token


@pytest.fixture
def closed(data_plane):
    with ControlServer(data_plane, "127.0.0.1:0", token=TOKEN) as running:
        yield running


def test_who_has_the_token_is_served(closed):
    with SwitchClient(closed.address, 5, TOKEN) as client:
        grant = create(client)
        session = join(client, grant)
        assert session.wait_until_complete(time.monotonic() + 5)
        assert client.who_is_missing(grant.job, grant.secret).not_joined == []
        end = QueuePairs("127.0.0.1", 5, 1024, tuple(range(65)), 0, 0, 0)
        client.connect_queue_pairs(grant.job, grant.secret, 0, end)
        assert len(client.status().jobs) == 1
        session.leave()


@pytest.mark.parametrize("token", [None, TOKEN + "x", TOKEN[:-1], "X" + TOKEN[1:]])
def test_every_call_without_the_right_token_is_refused(closed, data_plane, token):
    with SwitchClient(closed.address, 5, TOKEN) as client:
        grant = create(client)
    end = QueuePairs("127.0.0.1", 5, 1024, tuple(range(65)), 0, 0, 0)
    with SwitchClient(closed.address, 5, token) as stranger:
        for call in (
            lambda: create(stranger),
            lambda: join(stranger, grant),
            stranger.status,
            lambda: stranger.who_is_missing(grant.job, grant.secret),
            lambda: stranger.connect_queue_pairs(grant.job, grant.secret, 0, end),
        ):
            with pytest.raises(JobRejectedError, match="set JAXINA_TOKEN") as caught:
                call()
            assert TOKEN not in str(caught.value)
    assert list(data_plane.jobs) == [grant.job] and data_plane.asked == 0


def test_a_stranger_is_refused_before_he_says_anything(closed):
    """The stream has no first message, for which the switch would have to wait."""
    with stub_of(closed) as stub, saying_nothing() as silent:
        began = time.monotonic()
        assert refusal_of(stub.Session(silent()))[0] == "JOB_REJECTED"
        assert time.monotonic() - began < limits.JOIN_WITHIN / 2
