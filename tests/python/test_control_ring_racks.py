"""A ring whose workers are in racks: the switch above them tells the racks' switches their parts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from control_fakes import FakeDataPlane, eventually

from jaxina._native import FrameSwitch, JobShape
from jaxina.cli import data_planes
from jaxina.control import limits
from jaxina.control.assistance import Helpers
from jaxina.control.client import SwitchClient
from jaxina.control.data_plane import QueuePairs
from jaxina.control.racked_plane import RackedPlane
from jaxina.control.server import ControlServer
from jaxina.control.transparent_plane import TransparentPlane, fields_of
from jaxina.errors import InvalidArgumentError, JaxinaError, JobRejectedError, SwitchUnreachableError

WORKERS = 4
_JOB: dict[str, Any] = dict(
    devices=4, workers=4, slots=7, block_size=256, blocks_per_chunk=16, join_timeout=30.0, heartbeat_timeout=30.0
)


class FakeFrames:
    """Remembers the rings of a native FrameSwitch."""

    def __init__(self) -> None:
        self.rings: dict[int, tuple[list[str], list[int], int | None]] = {}
        self.refuse_with = ""  # a message

    def add_ring(self, job: int, shape: Any, ends: list[Any], racks: Any = (), rack: int | None = None) -> None:
        if self.refuse_with:
            raise InvalidArgumentError(self.refuse_with)
        self.rings[job] = ([end[0] for end in ends], list(racks), rack)

    def remove_ring(self, job: int) -> None:
        self.rings.pop(job, None)

    def statistics(self) -> dict[str, Any]:
        return {"rejected": {}, "jobs": {}}


def address(worker: int) -> str:
    return f"10.0.0.{worker + 1}"


class Switches:
    """Two racks' switches and the one above them, with a job that all its workers have joined."""

    def __init__(self, racks: tuple[list[int], list[int]] = ([0, 1], [2, 3])):
        self.leaves = [FakeFrames(), FakeFrames()]
        self.servers = [ControlServer(TransparentPlane(frames), "127.0.0.1:0") for frames in self.leaves]
        self.spine, self.helpers = FakeFrames(), Helpers(10, None)
        plane = RackedPlane(
            self.spine,
            {one.address: [address(w) for w in rack] for one, rack in zip(self.servers, racks, strict=True)},
            self.helpers,
        )
        self.above = ControlServer(plane, "127.0.0.1:0")
        plane.ended = self.above.end_job
        self.client = SwitchClient(self.above.address, 10)
        self.grant = self.client.create_job(**_JOB)
        self.aborts: list[tuple[str, str]] = []
        self.sessions = [
            self.client.join(
                *(self.grant.job, self.grant.secret, [worker]),
                heartbeat_timeout=30,
                statistics=dict,
                aborted=lambda *why: self.aborts.append(why),
            )
            for worker in range(WORKERS)
        ]

    def connect(self) -> list[Exception | None]:
        """Connects all workers. Returns how each call ended."""

        def one(worker: int) -> Exception | None:
            end = QueuePairs(address(worker), 4791, 1024, (5, 6), worker, worker + 7, 2**32)
            try:
                self.client.connect_ring(self.grant.job, self.grant.secret, worker, end, 30.0)
            except JaxinaError as error:
                return error
            return None

        with ThreadPoolExecutor() as threads:
            return list(threads.map(one, range(WORKERS)))

    def stop(self) -> None:
        self.client.close()
        for server in [self.above, *self.servers]:
            server.stop()
        self.helpers.close()


@pytest.fixture
def made():
    switches: list[Switches] = []

    def make(*arguments: Any) -> Switches:
        switches.append(Switches(*arguments))
        return switches[-1]

    yield make
    for one in switches:
        one.stop()


def test_each_switch_is_told_its_part_before_a_worker_sends(made) -> None:
    switches = made()
    assert switches.connect() == [None] * WORKERS
    everybody = [address(worker) for worker in range(WORKERS)]
    assert switches.spine.rings == {switches.grant.job: (everybody, [0, 0, 1, 1], None)}
    for rack, frames in enumerate(switches.leaves):
        assert frames.rings == {switches.grant.job: (everybody, [0, 0, 1, 1], rack)}


def test_the_racks_forget_a_job_with_it(made) -> None:
    switches = made()
    switches.connect()
    for session in switches.sessions:
        session.leave()
    assert eventually(lambda: not any(frames.rings for frames in [switches.spine, *switches.leaves]))
    assert switches.aborts == []


def test_a_ring_within_one_rack_is_summed_there_alone(made) -> None:
    switches = made(([0, 1, 2, 3], [9]))
    assert switches.connect() == [None] * WORKERS
    assert switches.spine.rings == {} and switches.leaves[1].rings == {}
    assert switches.leaves[0].rings[switches.grant.job][1:] == ([0] * WORKERS, 0)


def test_a_worker_in_no_rack_is_named(made) -> None:
    switches = made(([0, 1], [2]))
    for error in switches.connect():
        assert isinstance(error, InvalidArgumentError)
        assert "worker 3" in error.message and "--rack" in error.message


def test_what_a_racks_switch_refuses_reaches_all_workers(made) -> None:
    switches = made()
    switches.leaves[1].refuse_with = "use fewer slots"
    for error in switches.connect():
        assert isinstance(error, InvalidArgumentError) and "fewer slots" in error.message


def test_what_a_ring_takes_at_a_racks_switch_counts_as_memory(made, monkeypatch) -> None:
    """Of a job with small slots, what is held for connections is more than the pool, which counts where it was made."""
    for setting in ("slots", "blocks_per_chunk"):
        monkeypatch.setitem(_JOB, setting, 1)
    shape = JobShape(devices=WORKERS, workers=WORKERS, slots=1, block_size=256, blocks_per_chunk=1)
    ends = [fields_of(QueuePairs(address(w), 4791, 1024, (5, 6), w, w, 0)) for w in range(WORKERS)]
    taken = FrameSwitch.ring_bytes(shape, ends, [0, 0, 1, 1], 0)
    assert taken > 2 * shape.pool_bytes
    monkeypatch.setattr(limits, "POOL_PER_ADDRESS", taken)
    assert made().connect() == [None] * WORKERS
    monkeypatch.setattr(limits, "POOL_PER_ADDRESS", taken - 1)
    for error in made().connect():
        assert isinstance(error, JobRejectedError) and "one address may have" in error.message


def test_a_racks_switch_that_is_lost_ends_the_job_and_is_not_asked_again(made) -> None:
    switches = made()
    switches.connect()
    switches.servers[0].stop()
    assert eventually(lambda: len(switches.aborts) == WORKERS)
    assert {code for code, _ in switches.aborts} == {SwitchUnreachableError.code}
    switches.servers[0] = ControlServer(TransparentPlane(switches.leaves[0]), switches.servers[0].address)
    assert not eventually(lambda: switches.leaves[0].rings != {}, 1.5), "it must not go on with a ring"
    for session in switches.sessions:
        session.leave()
    assert eventually(lambda: switches.leaves[1].rings == {})


def test_a_switch_for_datagrams_sums_no_rack(made) -> None:
    switches = made()
    server = ControlServer(FakeDataPlane(), "127.0.0.1:0")
    plane = RackedPlane(FakeFrames(), {server.address: [address(w) for w in range(WORKERS)]}, switches.helpers)
    try:
        plane.add_job(5, 6, shape_of_job())
        ends = [QueuePairs(address(w), 4791, 1024, (5, 6), w, w, 0) for w in range(WORKERS)]
        with pytest.raises(InvalidArgumentError, match="--transparent"):
            plane.connect_ring(5, ends)
    finally:
        plane.remove_job(5)
        server.stop()


def shape_of_job() -> JobShape:
    return JobShape(devices=4, workers=4, slots=7, block_size=256, blocks_per_chunk=16)


@pytest.mark.parametrize(
    "options",
    [
        ["10.0.0.9:51000"],
        ["10.0.0.9=10.0.0.1"],
        ["10.0.0.9:51000=here"],
        ["10.0.0.9:51000=10.0.0.1", "10.0.0.9:51000=10.0.0.2"],
        ["10.0.0.9:51000=10.0.0.1", "10.0.0.8:51000=10.0.0.1"],
    ],
)
def test_a_rack_that_cannot_be_is_refused(options: list[str]) -> None:
    with pytest.raises(InvalidArgumentError, match="--rack"), data_planes.transparent("lo", options, None):
        pass
