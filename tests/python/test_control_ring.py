"""How the workers of a ring learn of their neighbours' queue pairs, at the control service and by the connector."""

from __future__ import annotations

import functools
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from control_fakes import FakeDataPlane, FakeEngine, FakeStore, FakeTopology, eventually, in_threads

from jaxina import config
from jaxina.control.client import SwitchClient
from jaxina.control.connector import Connector
from jaxina.control.data_plane import QueuePairs
from jaxina.control.ring_jobs import RingAggregators
from jaxina.control.server import ControlServer
from jaxina.errors import InvalidArgumentError, JobRejectedError, SwitchUnreachableError, WorkerLostError

WORKERS = 3
_JOB: dict[str, Any] = dict(devices=3, workers=3, slots=7, block_size=256, blocks_per_chunk=16)
_TIMES = dict(join_timeout=30.0, heartbeat_timeout=30.0)


def end_of(worker: int, mtu: int = 1024) -> QueuePairs:
    return QueuePairs(f"10.0.0.{worker + 1}", 4791, mtu, (10 * worker + 5, 10 * worker + 6), worker, worker + 7, 2**32)


class RingPlane(FakeDataPlane):
    """Remembers the rings."""

    def __init__(self) -> None:
        super().__init__()
        self.rings: dict[int, list[QueuePairs]] = {}
        self.refuse_ring_with: Exception | None = None
        self.connects = threading.Event()  # set when it begins to
        self.may_connect = threading.Event()
        self.may_connect.set()

    def remove_job(self, job: int) -> None:
        self.jobs.pop(job, None)  # as often as it is asked to
        self.removed.append(job)

    def connect_ring(self, job: int, ends: list[QueuePairs]) -> None:
        self.connects.set()
        self.may_connect.wait(60)
        if self.refuse_ring_with is not None:
            raise self.refuse_ring_with
        self.rings[job] = ends


class Workers:
    """A control service with a job that all its workers have joined."""

    def __init__(self, plane: FakeDataPlane):
        self.plane = plane
        self.server = ControlServer(plane, "127.0.0.1:0")
        self.client = SwitchClient(self.server.address, 10)
        self.grant = self.client.create_job(**_JOB, **_TIMES)
        self.sessions = [
            self.client.join(
                *(self.grant.job, self.grant.secret, [worker]),
                heartbeat_timeout=30,
                statistics=dict,
                aborted=lambda *why: None,
            )
            for worker in range(WORKERS)
        ]
        self.threads = ThreadPoolExecutor()

    def connect(self, worker: int, end: QueuePairs) -> Future[tuple[QueuePairs, QueuePairs]]:
        return self.threads.submit(self.client.connect_ring, self.grant.job, self.grant.secret, worker, end, 30.0)

    def leave(self) -> None:
        """All leave in order."""
        for session in self.sessions:
            session.leave()

    def stop(self) -> None:
        self.client.close()
        self.server.stop()
        self.threads.shutdown()


@pytest.fixture
def workers():
    made = Workers(RingPlane())
    yield made
    made.stop()


def test_each_worker_gets_its_neighbours_and_the_smallest_mtu(workers) -> None:
    told = [workers.connect(worker, end_of(worker, mtu)) for worker, mtu in enumerate((4096, 512, 1024))]
    for worker, (following, previous) in enumerate([one.result(30) for one in told]):
        assert following == end_of((worker + 1) % WORKERS, 512)
        assert previous == end_of((worker - 1) % WORKERS, 512)
    assert workers.plane.rings == {workers.grant.job: [end_of(worker, 512) for worker in range(WORKERS)]}


def test_nobody_sends_before_all_have_come(workers) -> None:
    waiting = [workers.connect(worker, end_of(worker)) for worker in (0, 2)]
    with pytest.raises(TimeoutError):
        waiting[0].result(0.3)
    assert workers.plane.rings == {}
    workers.connect(1, end_of(1)).result(30)
    for one in waiting:
        one.result(30)


def test_a_worker_connects_once(workers) -> None:
    first = workers.connect(0, end_of(0))
    assert eventually(lambda: len(workers.server._service._rings._meetings) == 1)
    with pytest.raises(JobRejectedError, match="before"):
        workers.connect(0, end_of(0)).result(30)
    assert not first.done()


def test_the_wait_ends_with_the_job(workers) -> None:
    waiting = workers.connect(0, end_of(0))
    assert eventually(lambda: len(workers.server._service._rings._meetings) == 1)
    workers.sessions[2].leave("WORKER_LOST", "it is gone")
    with pytest.raises(WorkerLostError, match="worker 2"):
        waiting.result(30)


def test_the_wait_ends_when_all_workers_have_left_in_order(workers) -> None:
    waiting = [workers.connect(worker, end_of(worker)) for worker in range(WORKERS - 1)]
    meetings = workers.server._service._rings._meetings
    assert eventually(lambda: [len(one.ends) for one in meetings.values()] == [WORKERS - 1])
    workers.leave()
    for one in waiting:
        with pytest.raises(JobRejectedError, match="has ended"):
            one.result(5)
    assert not meetings


@pytest.mark.parametrize("refused", [False, True])
def test_what_is_connected_after_the_end_of_the_job_is_removed(workers, refused) -> None:
    plane, job = workers.plane, workers.grant.job
    plane.refuse_ring_with = InvalidArgumentError("a rack's switch refuses") if refused else None
    plane.may_connect.clear()
    waiting = [workers.connect(worker, end_of(worker)) for worker in range(WORKERS)]
    assert plane.connects.wait(60)
    workers.leave()
    assert eventually(lambda: plane.removed == [job])
    plane.may_connect.set()
    assert eventually(lambda: plane.removed == [job, job], 5)
    for one in waiting:
        with pytest.raises(JobRejectedError, match="has ended"):
            one.result(5)


def test_what_the_switch_refuses_reaches_all_workers(workers) -> None:
    workers.plane.refuse_ring_with = InvalidArgumentError("use fewer slots")
    for one in [workers.connect(worker, end_of(worker)) for worker in range(WORKERS)]:
        with pytest.raises(InvalidArgumentError, match="fewer slots"):
            one.result(30)


def test_an_end_that_cannot_be_is_refused(workers) -> None:
    wrong = QueuePairs("10.0.0.1", 4791, 1024, (5,), 0, 0, 0)
    with pytest.raises(InvalidArgumentError, match="2 queue pairs, not 1"):
        workers.connect(0, wrong).result(30)
    with pytest.raises(InvalidArgumentError, match="numeric"):
        workers.connect(0, QueuePairs("here", 4791, 1024, (5, 6), 0, 0, 0)).result(30)


def test_a_switch_that_is_not_on_the_way_says_so() -> None:
    workers = Workers(FakeDataPlane())
    try:
        with pytest.raises(InvalidArgumentError, match="--transparent"):
            workers.connect(0, end_of(0)).result(30)
    finally:
        workers.stop()


def test_without_a_switch_the_first_process_has_the_control_service() -> None:
    store, engine = FakeStore(), FakeEngine()
    configuration = config.resolve({}, aggregator="netreduce", join_timeout=20)
    rings = [RingAggregators(configuration, "127.0.0.1", set, engine.abort, engine.statistics) for _ in range(WORKERS)]

    def enter(process: int) -> Any:
        topology = FakeTopology(process, WORKERS, 1)
        return Connector(configuration, topology, rings[process], lambda: store, set, 1)(range(WORKERS))

    for process, entered in enumerate(in_threads(*(functools.partial(enter, one) for one in range(WORKERS)))):
        transport = entered.transport
        assert (transport["kind"], transport["host"], transport["has_switch"]) == ("ring", "127.0.0.1", False)
        assert entered.worker == process and entered.shape.slots == 28
    # As at the end of a program: the first process's service must not end before the others have left.
    assert in_threads(*(functools.partial(ring.leave, None) for ring in rings)) == [None] * WORKERS
    assert engine.aborts == []


def test_a_switch_that_is_named_must_be_there() -> None:
    configuration = config.resolve({}, aggregator="netreduce", switch="127.0.0.1:9", join_timeout=0.5)
    assert configuration.uses_switch
    with pytest.raises(SwitchUnreachableError):
        RingAggregators(configuration, "127.0.0.1", set, lambda *why: None, dict)
