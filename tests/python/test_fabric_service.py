"""Scheduler, server, replica and workers in one process, over loopback: exact sums, deaths, forgeries and the log."""

from __future__ import annotations

import contextlib
import json
import threading
import time

import numpy as np
import pytest
from control_fakes import eventually

from jaxina.errors import (
    InvalidArgumentError,
    JaxinaError,
    JobRejectedError,
    MismatchError,
    SwitchUnreachableError,
    WorkerLostError,
)
from jaxina.fabric.commit_log import replay
from jaxina.fabric.model import Optimizer
from jaxina.fabric.monitor import RatesFile, estimate, written
from jaxina.fabric.service.client import Client
from jaxina.fabric.service.daemon import SchedulerDaemon
from jaxina.fabric.service.model_server import ModelServer
from jaxina.fabric.service.session import ask_status
from jaxina.fabric.service.settings import JobSettings
from jaxina.fabric.transfer.frame import Kind, header_of
from jaxina.fabric.transfer.pacing import steps
from jaxina.fabric.transfer.sender import send

ELEMENTS = 20_000
FAST = 12_500_000  # bytes per second
WAIT = 60.0  # seconds that nothing here takes


def update_of(rank: int, count: int, elements: int = ELEMENTS) -> np.ndarray:
    """Whole numbers, whose sums are exact in any order."""
    return np.random.default_rng((rank, count)).integers(-8, 9, elements).astype(np.float32)


def kill(host: Client | ModelServer) -> None:
    """Does to the others what the death of the host's process would: all its connections break, and nothing is said."""
    host._session._leaving = True  # nobody is left who could be told
    host._session._call.cancel()
    host._receiver.close()
    host._deliveries.close()


class Fabric:
    """A job. Its workers are made as they are needed."""

    def __init__(
        self, stack: contextlib.ExitStack, tmp_path, replica: bool = False, elements: int = ELEMENTS, **settings
    ):
        bound = 1e9 if replica else None
        settings = {"workers": 6, "rate": FAST, "divergence_bound": bound, "patience": 10.0} | settings
        self.stack = stack
        self.daemon = stack.enter_context(SchedulerDaemon(JobSettings(**settings), "127.0.0.1:0"))
        self.log = tmp_path / "commits"
        first = np.zeros(elements, np.float32)
        self.server = stack.enter_context(ModelServer(self.daemon.address, "127.0.0.1:0", first, self.log))
        self.replica = stack.enter_context(ModelServer(self.daemon.address, "127.0.0.1:0")) if replica else None

    def worker(self, rank: int) -> Client:
        return self.stack.enter_context(Client(self.daemon.address, rank))

    def status(self):
        return ask_status(self.daemon.address, WAIT, None)


@pytest.fixture
def fabric(tmp_path):
    """Makes a job."""
    with contextlib.ExitStack() as stack:
        yield lambda **settings: Fabric(stack, tmp_path, **settings)


def train(workers: list[Client], rounds: int) -> dict[tuple[int, int], bool | JaxinaError]:
    """Lets all submit updates at once, round after round. Returns which are committed, or why they failed."""
    outcomes: dict[tuple[int, int], bool | JaxinaError] = {}
    all_have_it = threading.Barrier(len(workers), timeout=WAIT)

    def work(rank: int, client: Client) -> None:
        try:
            _, version = client.model(WAIT)
            all_have_it.wait()
            for count in range(rounds):
                outcomes[rank, count] = WorkerLostError("it does not know")
                outcome = client.submit(update_of(rank, count), version).result(WAIT)
                outcomes[rank, count] = outcome.committed
                version = outcome.version
            client.finish(WAIT)
        except JaxinaError as error:
            outcomes[rank, -1] = error

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def total(outcomes) -> np.ndarray:
    return sum((update_of(*which) for which, told in outcomes.items() if told is True), np.zeros(ELEMENTS, np.float32))


@pytest.mark.parametrize("replica", [False, True])
def test_the_model_is_the_sum_of_what_was_committed(fabric, replica):
    job = fabric(replica=replica, rate=400_000)
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


def test_an_aggregator_that_is_killed_in_mid_transfer(fabric):
    """What it had from others comes another way, and counts once."""
    job = fabric(rate=200_000)
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


def test_a_version_that_the_model_never_had_is_refused(fabric):
    job = fabric()
    client = job.worker(0)
    client.model(WAIT)
    with pytest.raises(InvalidArgumentError, match="is of version 5, but the model has 0"):
        client.submit(update_of(0, 0), 5).result(WAIT)
    assert client.submit(update_of(0, 0), 0).result(WAIT).committed, "the client can go on"


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


def test_a_scheduler_with_a_token():
    with SchedulerDaemon(JobSettings(workers=1), "127.0.0.1:0", token="correct-horse-battery") as daemon:
        with pytest.raises(JobRejectedError, match="this scheduler needs a token"):
            Client(daemon.address, 0)
        with pytest.raises(JobRejectedError, match="this scheduler needs a token"):
            ask_status(daemon.address, WAIT, "another-horse-battery")
        Client(daemon.address, 0, token="correct-horse-battery").close()


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


def test_updates_need_a_model_first(fabric):
    with pytest.raises(InvalidArgumentError, match="get the model before"):
        fabric().worker(0).submit(update_of(0, 0), 0)


def test_rates_are_known_a_little_after_they_change(tmp_path):
    file = tmp_path / "rates"
    monitor = RatesFile(file, lag=0.2)
    assert monitor.changes(0.0) == {}, "there is no file yet"
    with file.open("w") as out:
        out.write(written(10.0, {"worker-0": (1, 2), "worker-1": (3, 4)}) + written(15.0, {"worker-0": (5, 6)})[:-5])
        out.flush()
        assert monitor.changes(10.1) == {}
        assert monitor.changes(10.2) == {"worker-0": (1, 2), "worker-1": (3, 4)}
        assert monitor.changes(20.0) == {}, "the line is not whole yet"
        out.write(written(15.0, {"worker-0": (5, 6)})[-5:])
        out.flush()
        assert monitor.changes(20.0) == {"worker-0": (5, 6)}
        out.write(json.dumps({"at": 1}) + "\n")
    with pytest.raises(InvalidArgumentError, match="a line that is no rates"):
        monitor.changes(30.0)


def test_a_link_is_estimated_by_what_its_transfers_had():
    assert estimate(1000, 2000, planned=1000, measured=500) == 500, "slower than planned"
    assert estimate(1000, 2000, planned=1000, measured=990) == 1101, "as planned, so a little more is tried"
    assert estimate(1990, 2000, planned=1000, measured=990) == 2000, "never more than the link has"
    assert estimate(1000, 2000, planned=1000, measured=0.0) == 1
