"""What the scheduler learns of the links."""

from __future__ import annotations

import json

import pytest
from control_fakes import eventually

from jaxina.errors import InvalidArgumentError
from jaxina.fabric.monitor import RatesFile, estimate, written
from jaxina.fabric.service import fabric_pb2 as pb
from jaxina.fabric.service.daemon import FabricService, SchedulerDaemon
from jaxina.fabric.service.job import Job
from jaxina.fabric.service.session import ask_status
from jaxina.fabric.service.settings import JobSettings


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


def test_the_scheduler_plans_with_what_a_testbed_writes(tmp_path):
    file = tmp_path / "rates"
    with SchedulerDaemon(JobSettings(workers=2, rate=1000), "127.0.0.1:0", rates=RatesFile(file)) as daemon:
        file.write_text(written(0.0, {"worker-1": (30, 40), "server": (5, 6), "another": (1, 1)}))

        def known():
            hosts = ask_status(daemon.address, 60, None, None).hosts
            return {host.name: (host.out_per_s, host.in_per_s) for host in hosts}

        assert eventually(lambda: known()["worker-1"] == (30, 40))
        assert known() == {"worker-0": (1000, 1000), "worker-1": (30, 40), "server": (5, 6)}


def test_the_scheduler_learns_from_transfers_if_it_is_asked_to():
    job = Job(JobSettings(workers=2, rate=1000), secret=1)
    server = job.join(pb.Join(role=pb.SERVER, address="a:1", elements=3), 0)
    worker = job.join(pb.Join(role=pb.WORKER, rank=0, address="a:1"), 0)
    slow = pb.Measured(to="server", bytes_per_s=300, planned_per_s=1000)
    FabricService(job, None, measured=False)._learn(worker, slow)
    assert job.links.rates("worker-0") == (1000, 1000)
    service = FabricService(job, None, measured=True)
    service._learn(worker, slow)
    service._learn(server, pb.Measured(to="worker-1", bytes_per_s=500, planned_per_s=1000))
    service._learn(server, pb.Measured(to="replica", bytes_per_s=1, planned_per_s=1000))
    assert job.links.rates("worker-0") == (300, 1000) and job.links.rates("worker-1") == (1000, 500)
    assert job.links.rates("server") == (1000, 1000), "those of the models' hosts are known"
