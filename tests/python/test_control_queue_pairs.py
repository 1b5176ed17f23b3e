"""Exchange of queue pairs through the control service, and the software switch's two data planes behind it."""

from __future__ import annotations

import dataclasses

import pytest
from control_fakes import FakeDataPlane

from jaxina._native import JobShape
from jaxina.control import limits
from jaxina.control.client import SwitchClient
from jaxina.control.data_plane import QueuePairs
from jaxina.control.quota import ConnectQuota
from jaxina.control.server import ControlServer
from jaxina.control.switch_planes import SwitchPlanes
from jaxina.errors import InvalidArgumentError, JobRejectedError, WorkerLostError

_END = QueuePairs("127.0.0.1", 50000, 1024, tuple(range(100, 109)), 7, 0x80000001, 2**63 + 5)
_JOB = dict(workers=2, slots=8, block_size=256, blocks_per_chunk=16)
_SHAPE = JobShape(devices=2, **_JOB)
_TIMES = dict(join_timeout=30.0, heartbeat_timeout=30.0)


class Switch:
    """A control service with a job that worker 1 has joined."""

    def __init__(self):
        self.plane = FakeDataPlane()
        self.server = ControlServer(self.plane, "127.0.0.1:0")
        self.client = SwitchClient(self.server.address, 10)
        self.grant = self.client.create_job(devices=2, **_JOB, **_TIMES)
        self.session = self.client.join(
            self.grant.job,
            self.grant.secret,
            [1],
            heartbeat_timeout=30,
            statistics=dict,
            aborted=lambda *why: None,
        )

    def connect(self, rank=1, job=0, secret=0, **changes):
        """Connects a worker. `job` and `secret` are differences from the right ones."""
        return self.client.connect_queue_pairs(
            self.grant.job + job,
            self.grant.secret ^ secret,
            rank,
            dataclasses.replace(_END, **changes),
        )


@pytest.fixture
def switch():
    made = Switch()
    yield made
    made.client.close()
    made.server.stop()


def test_the_ends_travel_unchanged(switch) -> None:
    ours = switch.connect()
    assert switch.plane.connected == [(switch.grant.job, 1, _END)]
    assert ours == QueuePairs("10.0.0.9", 4791, 1024, (5, 6, 7), 8, 9, 0)


def test_only_a_joined_worker_that_knows_the_secret_connects(switch) -> None:
    with pytest.raises(JobRejectedError, match="secret"):
        switch.connect(secret=1)
    with pytest.raises(JobRejectedError, match="no job"):
        switch.connect(job=1)
    with pytest.raises(JobRejectedError, match="worker 0 is not joined"):
        switch.connect(rank=0)
    switch.client.join(
        switch.grant.job,
        switch.grant.secret,
        [0],
        heartbeat_timeout=30,
        statistics=dict,
        aborted=lambda *why: None,
    )
    switch.session.leave("WORKER_LOST", "ended")
    with pytest.raises(WorkerLostError, match="worker 1"):
        switch.connect(rank=0)
    assert switch.plane.connected == []


@pytest.mark.parametrize(
    "changes,why",
    [
        ({"address": "localhost"}, "'localhost'.*numeric"),
        ({"address": "slow-name.example"}, "not a numeric IPv4"),
        ({"address": "::1"}, "not a numeric IPv4"),
        ({"address": ""}, "not a numeric IPv4"),
        ({"address": "127.1"}, "not a numeric IPv4"),
        ({"address": "0.0.0.0"}, "not the address of a host"),
        ({"address": "224.0.0.1"}, "not the address of a host"),
        ({"address": "255.255.255.255"}, "not the address of a host"),
        ({"udp_port": 0}, "from 1 to 65535"),
        ({"udp_port": 65536}, "from 1 to 65535"),
        ({"mtu": 0}, "256, 512, 1024, 2048, 4096"),
        ({"mtu": 1000}, "256, 512, 1024, 2048, 4096"),
        ({"mtu": 8192}, "256, 512, 1024, 2048, 4096"),
        ({"qpns": ()}, "9 queue pairs, not 0"),
        ({"qpns": tuple(range(8))}, "9 queue pairs, not 8"),
        ({"qpns": tuple(range(10))}, "9 queue pairs, not 10"),
        ({"qpns": (*range(8), 2**24)}, "24 bits"),
        ({"psn": 2**24}, "24 bits"),
    ],
)
def test_an_end_that_cannot_be_does_not_reach_the_data_plane(switch, changes, why) -> None:
    with pytest.raises(InvalidArgumentError, match=why):
        switch.connect(**changes)
    assert switch.plane.connected == []


@pytest.mark.parametrize("mtu", [256, 512, 1024, 2048, 4096])
def test_an_end_at_its_limits_is_sound(mtu) -> None:
    largest = tuple(range(2**24 - 9, 2**24))
    for port in (1, 65535):
        dataclasses.replace(_END, mtu=mtu, udp_port=port, qpns=largest, psn=2**24 - 1).check(8)


def test_a_loop_of_reconnects_is_refused(switch) -> None:
    at_once = 2 * limits.CONNECTS_PER_WORKER
    for _ in range(at_once):
        switch.connect()

    def again() -> None:
        for _ in range(at_once):  # on a slow machine the quota regains some connects meanwhile
            switch.connect()

    with pytest.raises(JobRejectedError, match="too often"):
        again()
    assert len(switch.plane.connected) < 2 * at_once


def test_a_worker_may_connect_anew_after_a_while_and_other_jobs_at_once() -> None:
    quota = ConnectQuota()
    for _ in range(limits.CONNECTS_PER_WORKER * 3):
        quota.take(job=1, workers=3, now=0.0)
    with pytest.raises(JobRejectedError, match=r"again in 1\.0 s"):
        quota.take(1, 3, now=0.0)
    quota.take(2, 3, now=0.0)
    quota.take(1, 3, now=1.0)
    with pytest.raises(JobRejectedError):
        quota.take(1, 3, now=1.0)
    quota.forget(1)
    quota.take(1, 3, now=1.0)


def test_all_jobs_together_have_a_limit() -> None:
    quota = ConnectQuota()
    at_once, per_second = limits.CONNECTS_IN_ALL
    for job in range(at_once):
        quota.take(job, 1, now=0.0)
    with pytest.raises(JobRejectedError, match="switch as a whole"):
        quota.take(at_once, 1, now=0.0)
    for job in range(per_second):
        quota.take(at_once + job, 1, now=1.0)


def test_the_software_switch_answers_with_its_own_end() -> None:
    from jaxina import _native

    datagrams = _native.SoftwareSwitch("127.0.0.1", 1, 0.0, 0)
    planes = SwitchPlanes(datagrams, _native.RoceSwitch("127.0.0.1", 0, True, 0.0, 0))
    try:
        planes.add_job(5, 6, _SHAPE)
        first = planes.connect_queue_pairs(5, 0, _END)
        other = planes.connect_queue_pairs(5, 1, _END)
        assert (first.address, first.mtu, len(first.qpns)) == ("127.0.0.1", 1024, 9)
        assert first.rkey == other.rkey, "a job has one key"
        assert not set(first.qpns) & set(other.qpns)
        with pytest.raises(InvalidArgumentError, match="9 queue pairs"):
            planes.connect_queue_pairs(5, 0, QueuePairs("127.0.0.1", 5, 1024, (1, 2), 0, 0, 0))
        assert planes.missing(5) == []
        assert planes.statistics()["jobs"][5]["updates"] == 0
        assert planes.slots_that_fit(_SHAPE) >= 1
        planes.abort_job(5, "WORKER_LOST", "worker 1 died")
        planes.remove_job(5)
    finally:
        datagrams.stop()


def test_a_switch_without_rdma_says_how_to_get_it() -> None:
    planes = SwitchPlanes(FakeDataPlane(), None)
    planes.add_job(5, 6, _SHAPE)
    with pytest.raises(InvalidArgumentError, match="--rdma"):
        planes.connect_queue_pairs(5, 0, _END)
