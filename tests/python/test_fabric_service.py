"""Scheduler, server, replica and workers over loopback: exact sums, deaths, forgeries and the log."""

from __future__ import annotations

import os
import re
import threading
import time

import numpy as np
import pytest
from control_fakes import eventually
from fabric_jobs import ELEMENTS, WAIT, kill, total, train, update_of

from jaxina.errors import InvalidArgumentError, JobRejectedError, MismatchError, SystemCallError, WorkerLostError
from jaxina.fabric.commit_log import replay
from jaxina.fabric.model import Optimizer
from jaxina.fabric.service import fabric_pb2 as pb
from jaxina.fabric.service.client import Client
from jaxina.fabric.service.deliveries import Deliveries
from jaxina.fabric.transfer.frame import Kind, header_of
from jaxina.fabric.transfer.pacing import steps
from jaxina.fabric.transfer.sender import send


@pytest.mark.parametrize("replica", [False, True])
def test_the_model_is_the_sum_of_what_was_committed(fabric, replica):
    job = fabric(replica=replica, rate=400_000)
    job.plan_together()
    outcomes = train([job.worker(rank) for rank in range(6)], 2)
    assert len(outcomes) == 12 and all(told is True for told in outcomes.values()), outcomes
    model, version = job.server.model()
    assert version == 12
    np.testing.assert_array_equal(model, total(outcomes))
    status = job.status()
    assert status.decided == status.planned == 12 and status.lost == 0 and status.greatest_delay < 30
    assert status.added > 0, "nothing was added on its way"
    assert [host.committed for host in status.hosts][:6] == [2] * 6
    if replica:
        assert eventually(lambda: job.replica.model()[1] == 12, WAIT)
        np.testing.assert_array_equal(job.replica.model()[0], model)


def test_a_replay_of_the_log_gives_the_servers_bits(fabric):
    job = fabric(rate=400_000, optimizer=Optimizer(0.3, 0.9, True), compressor="bf16")
    assert all(told is True for told in train([job.worker(rank) for rank in range(4)], 2).values())
    model, version = job.server.model()
    again = replay(job.log)
    assert again.version == version == 8 and again.weights.tobytes() == model.tobytes()


def test_a_log_that_cannot_be_written_ends_the_job_for_all(fabric):
    """The commit at which that shows is in the model, and its worker learns of it."""
    job = fabric()
    first, second = job.worker(0), job.worker(1)
    for client in (first, second):
        client.model(WAIT)
    with open("/dev/full", "wb") as full:
        os.dup2(full.fileno(), job.server._log._file.fileno())
    outcome = first.submit(update_of(0, 0), 0).result(WAIT)
    assert outcome.committed and outcome.version == 1
    with pytest.raises(SystemCallError, match=re.escape(f"server: cannot write the log {job.log}: No space left")):
        second.submit(update_of(1, 0), 1).result(WAIT)
    assert eventually(lambda: isinstance(job.server.error, SystemCallError), WAIT)
    model, version = job.server.model()
    assert version == job.status().decided == 1
    np.testing.assert_array_equal(model, update_of(0, 0))


def test_an_aggregator_that_is_killed_in_mid_transfer(fabric):
    """What it had from others comes another way, and counts once."""
    # The scheduler waits this long for a turn that is late, for each group of updates. All must end within WAIT.
    job = fabric(rate=200_000, patience=5.0)
    job.plan_together()
    workers = [job.worker(rank) for rank in range(6)]
    killed: list[int] = []

    def adds_others(client: Client) -> bool:
        """Whether it has an update of another worker, and has not handed on the sum."""
        gatherings = [gathering for gathering, _ in list(client._gatherings.values())]
        mine = [name for gathering in gatherings for name in list(gathering._vectors) if name >> 32 == client._number]
        sends = any(key[0] == "sum" for key in list(client._deliveries._running))
        return sends or any(len(g._vectors) > 0 for g in gatherings if len(g._vectors) > len(mine))

    def kill_one() -> None:
        end = time.monotonic() + WAIT
        while not killed and time.monotonic() < end:
            for rank, client in enumerate(workers):
                if not killed and adds_others(client):
                    killed.append(rank)
                    kill(client)
                    client._end(WorkerLostError("killed"))
            time.sleep(0.005)

    killer = threading.Thread(target=kill_one)
    killer.start()
    outcomes = train(workers, 2)
    killer.join()
    assert killed, "nobody added anything"
    survivors = {which: told for which, told in outcomes.items() if which[0] != killed[0]}
    assert len(survivors) == 10 and all(told is True for told in survivors.values()), outcomes
    status = job.status()
    assert status.decided == status.planned
    assert replay(job.log).weights.tobytes() == job.server.model()[0].tobytes()
    # The one that died may have got some of its own updates to the server, and did not learn of it.
    own = job.server.model()[0] - total(survivors)
    possible = [sum((update_of(killed[0], c) for c in range(n)), np.zeros(ELEMENTS, np.float32)) for n in range(3)]
    assert any((own == one).all() for one in possible), "an update counts twice, or in part"


def test_a_server_that_is_killed_is_replaced_by_its_replica(fabric):
    job = fabric(replica=True, rate=2_000_000)
    workers = [job.worker(rank) for rank in range(3)]
    before = train(workers, 2)
    assert eventually(lambda: job.replica.model()[1] == 6, WAIT)
    kill(job.server)
    begin = time.monotonic()
    _, version = workers[0].model(WAIT)
    assert time.monotonic() - begin < 5 and version == 6
    assert job.replica.serves and job.status().serving == "replica"
    after = train_more(workers, version)
    model, version = job.replica.model()
    assert version == 9
    np.testing.assert_array_equal(model, total(before) + after)


def test_a_replica_that_does_not_get_an_update_gets_the_model(fabric):
    """Its worker lives, but sends it no longer: the replica refused it, say, because its own first model was late."""
    job = fabric(replica=True, patience=2.0)
    client = job.worker(0)
    client.model(WAIT)
    start, given_up = client._deliveries.start, []

    def give_up_the_first(key, way, frame):
        if key[0] == "copy" and not given_up:
            given_up.append(key)
        else:
            start(key, way, frame)

    client._deliveries.start = give_up_the_first
    for count in range(2):
        assert client.submit(update_of(0, count), count).result(WAIT).committed
    client.finish(WAIT)
    assert given_up and job.replica.model()[1] == 2
    np.testing.assert_array_equal(job.replica.model()[0], job.server.model()[0])


def test_a_replica_whose_first_model_is_lost_asks_for_it(fabric, monkeypatch):
    start, lost = Deliveries.start, []

    def lose_the_first(self, key, way, frame):
        if frame.kind is Kind.STATE and not lost:
            lost.append(key)
        else:
            start(self, key, way, frame)

    monkeypatch.setattr(Deliveries, "start", lose_the_first)
    job = fabric(replica=True, patience=1.0)
    client = job.worker(0)
    client.model(WAIT)
    assert client.submit(update_of(0, 0), 0).result(WAIT).committed
    client.finish(WAIT)
    assert lost
    np.testing.assert_array_equal(job.replica.model()[0], job.server.model()[0])


def test_a_replica_that_asks_again_while_the_model_is_on_its_way_does_not_begin_anew(fabric):
    job = fabric(replica=True)
    assert eventually(lambda: not job.server._deliveries._running, WAIT)  # its first model is there
    minute = pb.Piece(begin_ns=0, end_ns=60 * 10**9, bytes_per_s=4 * ELEMENTS // 60 + 1)
    give = pb.Give(whole=True, way=pb.Way(host="replica", address=job.replica.address, pieces=[minute]))
    job.server._handle(pb.SchedulerMessage(give=give))
    (first,) = job.server._deliveries._running.values()
    job.server._handle(pb.SchedulerMessage(give=give))
    assert list(job.server._deliveries._running.values()) == [first] and not first.is_set()


def test_a_model_that_overtakes_the_servers_decisions(fabric):
    """The replica gets a model with turns whose decisions are still on their way, and die with the server."""
    job = fabric(replica=True)
    client = job.worker(0)
    client.model(WAIT)
    say = job.server._session.say
    job.server._session.say = lambda **message: None if "decided" in message else say(**message)
    kept = [client.submit(update_of(0, count), 0) for count in range(2)]
    assert eventually(lambda: job.server.model()[1] == 2 and job.replica._follower.received == 2, WAIT)
    model, version = job.server.model()

    def give(weights):
        header = header_of(Kind.STATE, client._session.joined.secret, (1,), version, weights.tobytes())
        plan = steps((), header.length + header.size)
        send(job.replica.address, header, weights.tobytes(), plan, threading.Event(), WAIT)

    with pytest.raises(InvalidArgumentError, match=f"10 weights is not that of {ELEMENTS}"):
        give(model[:10])
    give(model)
    client._deliveries.start = lambda *_: None
    lost = client.submit(update_of(0, 2), 0)
    assert eventually(lambda: job.replica._follower.planned == 3, WAIT)
    kill(job.server)
    told = [outcome.result(WAIT) for outcome in (*kept, lost)]
    assert [(outcome.committed, outcome.version) for outcome in told] == [(True, 1), (True, 2), (False, 3)]
    assert job.replica.model()[1] == job.status().decided == 3
    np.testing.assert_array_equal(job.replica.model()[0], model)


def train_more(workers: list[Client], version: int) -> np.ndarray:
    """One more update of each. Returns their sum."""
    results = [client.submit(update_of(rank, 7), version) for rank, client in enumerate(workers)]
    assert all(result.result(WAIT).committed for result in results)
    return sum(update_of(rank, 7) for rank in range(len(workers)))


def test_a_worker_that_dies_holds_nobody_up(fabric):
    many = 500_000  # so many that most of an update is not in the kernel's buffers when its worker dies
    job = fabric(rate=2_000_000, elements=many)
    workers = [job.worker(rank) for rank in range(2)]
    for client in workers:
        client.model(WAIT)
    lost = workers[0].submit(update_of(0, 0, many), 0)
    assert eventually(lambda: workers[0]._deliveries._running, WAIT)
    kept = workers[1].submit(update_of(1, 0, many), 0)
    kill(workers[0])
    outcome = kept.result(WAIT)
    assert outcome.committed and outcome.version == 2
    np.testing.assert_array_equal(job.server.model()[0], update_of(1, 0, many))
    assert job.status().lost == 1 and not lost.done()
    again = job.worker(0)  # another process takes its place
    _, version = again.model(WAIT)
    assert version == 2 and again.submit(update_of(0, 1, many), version).result(WAIT).committed


def test_forged_and_repeated_frames_change_nothing(fabric):
    job = fabric()
    client = job.worker(0)
    client.model(WAIT)
    assert client.submit(update_of(0, 0), 0).result(WAIT).committed
    secret = client._session.joined.secret
    name = client._number << 32 | 2  # of the update before
    model, version = job.server.model()

    def forge(kind=Kind.UPDATE, secret=secret, name=name, version=0, payload=None):
        payload = update_of(0, 1).tobytes() if payload is None else payload
        header = header_of(kind, secret, (name,), version, payload)
        send(job.server.address, header, payload, steps((), header.length + header.size), threading.Event(), WAIT)

    with pytest.raises(JobRejectedError, match="secret"):
        forge(secret=secret ^ 1)
    with pytest.raises(JobRejectedError, match="is over: it is a duplicate"):
        forge()
    for kind in (Kind.MODEL, Kind.STATE, Kind.LOST):
        with pytest.raises(JobRejectedError, match="nobody has asked"):
            forge(kind=kind)
    # One that is planned, but of another version, size or content than announced.
    client._deliveries.start = lambda *_: None  # so that it does not come by itself
    client.submit(update_of(0, 2), 1)
    planned = name + 1
    with pytest.raises(MismatchError, match="of version 0, and the plan 1"):
        forge(name=planned, version=0)
    with pytest.raises(InvalidArgumentError, match="bytes, and the plan"):
        forge(name=planned, version=1, payload=b"abcd")
    assert job.server.model()[1] == version
    np.testing.assert_array_equal(job.server.model()[0], model)
    wrong = update_of(0, 3)
    wrong[5] = np.inf
    with pytest.raises(InvalidArgumentError, match="not finite"):
        forge(name=planned, version=1, payload=wrong.tobytes())
    assert eventually(lambda: job.status().lost == 1, WAIT)
    np.testing.assert_array_equal(job.server.model()[0], model)
