"""`jaxina switch` and `jaxina status`, run as processes with the real data plane."""

import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
from control_fakes import eventually
from rich.console import Console

from jaxina import _native
from jaxina.cli import data_planes
from jaxina.cli.common_options import read_token
from jaxina.cli.status import Rates, render
from jaxina.control import control_pb2 as pb
from jaxina.control.client import SwitchClient
from jaxina.errors import InvalidArgumentError, JobRejectedError


def jaxina(*arguments, timeout=60, **environment):
    """Runs a command. Returns its exit code, stdout and stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "jaxina.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "COLUMNS": "200", **environment},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def start_switch(tmp_path):
    """A function that starts a switch on loopback and returns its process, its address and its log."""
    started = []

    def start(*arguments):
        log = tmp_path / f"switch-{len(started)}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "jaxina.cli", "switch", "--bind", "127.0.0.1:0", *arguments],
                stderr=file,
            )
        started.append(process)
        assert eventually(lambda: "control at" in log.read_text(), timeout=30), log.read_text()
        return process, re.search(r"control at (\S+),", log.read_text())[1], log

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_the_data_path_goes_before_the_control_service(start_switch):
    process, _, _ = start_switch("--threads", "2", "--rdma", "127.0.0.1:0")

    def niceness(thread: str) -> int:
        text = pathlib.Path(f"/proc/{process.pid}/task/{thread}/stat").read_text()
        return int(text.rpartition(")")[2].split()[16])

    usual = os.getpriority(os.PRIO_PROCESS, 0)
    threads = {thread: niceness(thread) for thread in os.listdir(f"/proc/{process.pid}/task")}
    assert threads.pop(str(process.pid)) > usual, "it serves control calls"
    assert sum(value == usual for value in threads.values()) >= 3, "two of datagrams and one of RDMA"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(start_switch, number):
    process, _, log = start_switch()
    process.send_signal(number)
    assert process.wait(timeout=10) == 0
    assert "stopping" in log.read_text() and "Traceback" not in log.read_text()


def test_a_draining_switch_takes_no_jobs_and_ends_with_its_last_one(start_switch):
    process, address, log = start_switch("--threads", "1")

    def create(client):
        sizes = {"devices": 1, "workers": 1, "slots": 2, "block_size": 64, "blocks_per_chunk": 1}
        return client.create_job(**sizes, join_timeout=60, heartbeat_timeout=60)

    with SwitchClient(address, 5) as client:
        grant = create(client)
        session = client.join(
            grant.job, grant.secret, [0], heartbeat_timeout=60, statistics=dict, aborted=lambda *why: None
        )
        process.send_signal(signal.SIGUSR1)
        assert eventually(lambda: client.status().draining)
        with pytest.raises(JobRejectedError, match="draining"):
            create(client)
        assert process.poll() is None and len(client.status().jobs) == 1
        session.leave()
        assert process.wait(timeout=60) == 0
    text = log.read_text()
    assert "draining" in text and "stopping" in text and "Traceback" not in text


def test_a_receive_buffer_that_the_system_limits_is_named_with_its_remedy(caplog):
    data_planes.warn_of_small_buffers(granted=212992, requested=33554432)
    assert "sysctl -w net.core.rmem_max=33554432" in caplog.text and "212992" in caplog.text
    caplog.clear()
    data_planes.warn_of_small_buffers(granted=33554432, requested=33554432)
    assert not caplog.text


def test_the_data_plane_tells_its_buffers_and_what_they_lost():
    datagrams = _native.SoftwareSwitch("127.0.0.1", 1, 0.0, 0)
    try:
        assert 0 < datagrams.receive_buffer_granted <= datagrams.receive_buffer_requested
        statistics = datagrams.statistics()
        assert statistics["socket_overflows"] == statistics["packets_unanswerable"] == 0
    finally:
        datagrams.stop()


def test_jobs_come_and_go_in_status_and_log(start_switch):
    _, address, log = start_switch("--threads", "2")
    code, out, _ = jaxina("status", "--switch", address, "--interval", 0.5)
    assert code == 0 and address in out and "no jobs" in out
    with SwitchClient(address, 5) as client:
        grant = client.create_job(
            devices=2,
            workers=2,
            slots=32,
            block_size=128,
            blocks_per_chunk=2,
            join_timeout=30,
            heartbeat_timeout=30,
        )
        assert len(grant.data_ports) == 2 and len(set(grant.data_ports)) == 2
        session = client.join(
            grant.job,
            grant.secret,
            [1],
            heartbeat_timeout=30,
            statistics=dict,
            aborted=lambda *why: None,
        )
        code, out, _ = jaxina("status", "--switch", address, "--interval", 0.5)
        (row,) = [line for line in out.splitlines() if "1/2" in line]
        assert str(grant.job) in row and "32 x 128 x 2" in row and "gathering" in row
        assert f"job {grant.job} waits for worker 0 (not joined)" in out
        code, out, _ = jaxina("status", "--switch", address, "--interval", 0.5, "--json")
        (job,) = json.loads(out)["jobs"]
        assert (job["job"], job["present"], job["slots"], job["rates"]["updates"]) == (grant.job, 1, 32, 0.0)
        session.leave()
    text = log.read_text()
    assert f"job {grant.job}: worker 1 (host " in text and "joined" in text
    assert eventually(lambda: f"job {grant.job}: ended" in log.read_text())
    assert str(grant.secret) not in log.read_text() + out


def test_a_port_in_use_is_one_clear_line(start_switch):
    _, address, _ = start_switch()
    code, _, err = jaxina("switch", "--bind", address)
    assert code == 2 and f"cannot listen at {address}" in err and "Traceback" not in err


@pytest.mark.parametrize(
    "arguments,message",
    [
        (["--bind", "nowhere"], "HOST:PORT"),
        (["--upstream", "core"], "--upstream: 'core' is not HOST:PORT"),
        (["--bind", "127.0.0.1:0", "--data-ports", "9-3"], "FIRST-LAST"),
        (["--bind", "127.0.0.1:0", "--data-ports", "51001-51004", "--threads", "2"], "4 ports"),
        (["--bind", "192.0.2.1:0"], "192.0.2.1"),
        (["--loss", "1.5"], "--loss"),
    ],
)
def test_bad_arguments(arguments, message):
    code, _, err = jaxina("switch", *arguments)
    assert code == 2 and message in err and "Traceback" not in err


TOKEN = "correct-horse-battery"


def test_a_switch_with_a_token(start_switch, tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    _, address, log = start_switch("--token-file", str(file))
    with SwitchClient(address, 30) as stranger, pytest.raises(JobRejectedError, match="TOKEN"):
        stranger.status()
    code, out, _ = jaxina("status", "--switch", address, JAXINA_TOKEN=TOKEN)
    assert code == 0 and "no jobs" in out
    assert TOKEN not in log.read_text() and "only callers with its token" in log.read_text()


def test_a_bad_token_file(tmp_path):
    assert read_token(None) is None
    with pytest.raises(InvalidArgumentError, match=r"--token-file .*nowhere"):
        read_token(tmp_path / "nowhere")
    file = tmp_path / "bytes"
    file.write_bytes(b"\xff" * 20)
    with pytest.raises(InvalidArgumentError, match=r"--token-file .*bytes"):
        read_token(file)


def shown(reply):
    with open(os.devnull, "w") as nowhere:
        console = Console(width=300, record=True, file=nowhere)
        console.print(render("here:1", reply, {}))
    return console.export_text()


def test_packets_lost_at_a_full_buffer_come_with_the_remedy():
    assert "rmem_max" not in shown(pb.StatusReply())
    assert "rmem_max" not in shown(pb.StatusReply(counters={"socket_overflows": 0, "other": 3}))
    text = shown(pb.StatusReply(counters={"socket_overflows": 1234}))
    assert "1,234 packets lost" in text and "sysctl -w net.core.rmem_max=33554432" in text


def test_updates_lost_inside_a_chip_are_told():
    assert "between its pipes" not in shown(pb.StatusReply(jobs=[pb.JobStatus(job=7)]))
    text = shown(pb.StatusReply(jobs=[pb.JobStatus(job=7, counters={"lost_inside": 1234})]))
    assert "job 7: the chip has lost 1,234 updates on their way between its pipes" in text


def test_a_chips_ports_and_draining_are_told():
    assert "draining" not in shown(pb.StatusReply()) and "longest" not in shown(pb.StatusReply())
    of_mac = {"packets_received": 1_500_000, "packets_sent": 12, "errors": 3}
    of_traffic_manager = {"dropped_at_ingress": 4, "dropped_at_egress": 56, "longest_queue_bytes": 78_000}
    ports = [
        pb.PortStatus(port=132, up=True, counters={**of_mac, **of_traffic_manager}),
        pb.PortStatus(port=4, counters={**of_mac, **of_traffic_manager}),
        pb.PortStatus(port=68, up=True, counters=of_traffic_manager),
    ]
    text = shown(pb.StatusReply(draining=True, ports=ports))
    assert "draining: no new jobs" in text
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in text.splitlines() if re.match(r" *\d", line)}
    assert rows == {
        "132": "up 1.5 M, 12 3 4, 56 78",
        "4": "down 1.5 M, 12 3 4, 56 78",
        "68": "up - - 4, 56 78",
    }


def test_a_job_told_in_brief_shows_how_many_are_there():
    job = pb.JobStatus(job=7, workers=9, present=5, absent=3, brief=True)
    text = shown(pb.StatusReply(jobs=[job]))
    (row,) = [line for line in text.splitlines() if "5/9" in line]
    assert "gathering" in row and "not listed" in text


def test_a_look_fits_80_columns():
    job = pb.JobStatus(job=4_000_000_000, workers=64, present=64, slots=128, block_size=256, aborted="worker 3 is gone")
    rates = {4_000_000_000: {"updates": 5e5, "packets_sent": 5e5, "bytes_received": 2e9, "bytes_sent": 2e9}}
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(render("[fd00:1234:5678::1]:51000", pb.StatusReply(jobs=[job]), rates))
    text = console.export_text()
    for whole in ("[fd00:", "4000000000", "64/64", "128 x 256", "500 k, 500 k", "2 k, 2 k", "aborted"):
        assert whole in text, text
    assert "job 4000000000 is aborted: worker 3 is gone" in text and "…" not in text


def test_status_without_a_switch_says_so():
    code, _, err = jaxina("status", JAXINA_AGGREGATOR="direct")
    assert code == 2 and "the direct aggregator has no switch to ask" in err
    code, _, err = jaxina("status", JAXINA_AGGREGATOR="atp", JAXINA_SWITCH="10.0.0.1:1,10.0.0.2:1")
    assert code == 2 and "names several switches: choose one" in err


def test_status_of_no_switch():
    began = time.monotonic()
    code, _, err = jaxina("status", "--switch", "127.0.0.1:1")
    assert code == 1 and "no switch answers at 127.0.0.1:1" in err
    assert "Traceback" not in err and time.monotonic() - began < 30


def test_rates_are_growth_per_second():
    def reply(uptime, **counters):
        return pb.StatusReply(uptime_s=uptime, jobs=[pb.JobStatus(job=7, counters=counters)])

    rates = Rates()
    assert rates.look(reply(10.0, updates=100)) == {7: {"updates": 0.0}}
    assert rates.look(reply(12.0, updates=160)) == {7: {"updates": 30.0}}
    same = "the switch answers a second look at once with what it found in the first"
    assert rates.look(reply(12.0, updates=160)) == {7: {"updates": 30.0}}, same
    assert rates.look(reply(14.0, updates=160)) == {7: {"updates": 0.0}}
    assert rates.look(reply(1.0, updates=10)) == {7: {"updates": 0.0}}, "it was started anew"
