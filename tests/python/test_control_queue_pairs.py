"""Queue pairs through the control service, and the software switch's two data planes as one."""

from __future__ import annotations

import pytest
from control_fakes import FakeDataPlane

from jaxina.control.client import SwitchClient
from jaxina.control.data_plane import QueuePairs
from jaxina.control.server import ControlServer
from jaxina.control.switch_planes import SwitchPlanes
from jaxina.errors import InvalidArgumentError, JobRejectedError

_END = QueuePairs("127.0.0.1", 50000, 1024, tuple(range(100, 109)), 7, 0x80000001, 2**63 + 5)
_JOB = dict(workers=2, slots=8, block_size=256, blocks_per_chunk=16)
_TIMES = dict(join_timeout=30.0, heartbeat_timeout=30.0)


def test_the_ends_travel_unchanged() -> None:
    plane = FakeDataPlane()
    with ControlServer(plane, "127.0.0.1:0") as server, SwitchClient(server.address, 10) as client:
        grant = client.create_job(**_JOB, **_TIMES)
        ours = client.connect_queue_pairs(grant.job, grant.secret, 1, _END)
    assert plane.connected == [(grant.job, 1, _END)]
    assert ours == QueuePairs("10.0.0.9", 4791, 1024, (5, 6, 7), 8, 9, 0)


def test_only_who_knows_the_secret_connects() -> None:
    plane = FakeDataPlane()
    with ControlServer(plane, "127.0.0.1:0") as server, SwitchClient(server.address, 10) as client:
        grant = client.create_job(**_JOB, **_TIMES)
        with pytest.raises(JobRejectedError, match="secret"):
            client.connect_queue_pairs(grant.job, grant.secret ^ 1, 1, _END)
        with pytest.raises(JobRejectedError, match="no job"):
            client.connect_queue_pairs(grant.job + 1, grant.secret, 1, _END)
    assert plane.connected == []


def test_the_software_switch_answers_with_its_own_end() -> None:
    from jaxina import _native

    datagrams = _native.SoftwareSwitch("127.0.0.1", 1, 0.0, 0)
    planes = SwitchPlanes(datagrams, _native.RoceSwitch("127.0.0.1", 0, True, 0.0, 0))
    try:
        planes.add_job(5, 6, **_JOB)
        first = planes.connect_queue_pairs(5, 0, _END)
        other = planes.connect_queue_pairs(5, 1, _END)
        assert (first.address, first.mtu, len(first.qpns)) == ("127.0.0.1", 1024, 9)
        assert first.rkey == other.rkey, "a job has one key"
        assert not set(first.qpns) & set(other.qpns)
        with pytest.raises(InvalidArgumentError, match="9 queue pairs"):
            planes.connect_queue_pairs(5, 0, QueuePairs("127.0.0.1", 5, 1024, (1, 2), 0, 0, 0))
        assert planes.missing(5) == []
        assert planes.statistics()["jobs"][5]["updates"] == 0
        planes.abort_job(5, "WORKER_LOST", "worker 1 died")
        planes.remove_job(5)
    finally:
        datagrams.stop()


def test_a_switch_without_rdma_says_how_to_get_it() -> None:
    planes = SwitchPlanes(FakeDataPlane(), None)
    planes.add_job(5, 6, **_JOB)
    with pytest.raises(InvalidArgumentError, match="--rdma"):
        planes.connect_queue_pairs(5, 0, _END)
