"""Switches that combine updates, with real processes. The switch, all workers, or a server are killed in training."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from control_fakes import eventually
from patience import PATIENCE

from jaxina.control.client import SwitchClient
from jaxina.errors import SwitchUnreachableError

STEPS = Path(__file__).with_name("atp_steps.py")
CLI = [sys.executable, "-m", "jaxina.cli"]
WORKERS = 3
FIRST, BEFORE, WITHOUT, LAST = PAUSES = (0, 20, 60, 100)  # the steps after which the workers wait


def free_ports(count: int, kind: socket.SocketKind) -> list[int]:
    """Ports that were free a moment ago, one after the other."""
    while True:
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(socket.socket(type=kind))
            first.bind(("127.0.0.1", 0))
            ports = [first.getsockname()[1] + i for i in range(count)]
            try:
                for port in ports[1:]:
                    stack.enter_context(socket.socket(type=kind)).bind(("127.0.0.1", port))
            except OSError:
                continue
            return ports


class Switch:
    """A `jaxina switch` that keeps its ports when it is started again."""

    def __init__(self, *options: str) -> None:
        self.address = f"127.0.0.1:{free_ports(1, socket.SOCK_STREAM)[0]}"
        data_port = free_ports(1, socket.SOCK_DGRAM)[0]
        where = ["--bind", self.address, "--data-ports", str(data_port)]
        self._command = [*CLI, "switch", *where, "--quiet", *options]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command)

    def is_helping(self) -> bool:
        return len(self.status().assisted) == 1

    def is_combining(self) -> bool:
        return any(job.counters["combined"] > 0 for job in self.status().assisted)

    def is_up(self) -> bool:
        with contextlib.suppress(SwitchUnreachableError), SwitchClient(self.address, 0.5) as client:
            client.status()
            return True
        return False

    def status(self):
        with SwitchClient(self.address, 5) as client:
            return client.status()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def start_all(*switches: Switch) -> None:
    for one in switches:
        one.start()
    assert all(eventually(one.is_up) for one in switches)


@pytest.fixture
def switches() -> Iterator[list[Switch]]:
    made = [Switch(), Switch()]
    yield made
    for one in made:
        one.kill()


@pytest.fixture
def racks() -> Iterator[list[Switch]]:
    """A core switch, and the switches of two racks below it."""
    core = Switch()
    made = [core, *(Switch("--upstream", core.address) for _ in range(2))]
    yield made
    for one in made:
        one.kill()


def start(folder: Path, *options: str, workers: int = WORKERS, **environment: str):
    command = [*CLI, "run", "-n", str(workers), *options, str(STEPS), str(folder), *map(str, PAUSES)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
    )


def digests(process, workers: int) -> set[str]:
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    found = re.findall(r"parameters ([0-9a-f]{64})", output)
    assert len(found) == workers, output
    return set(found)


def digest_without_switches(folder: Path, workers: int) -> str:
    folder.mkdir()
    for step in PAUSES:
        (folder / f"go-{step}").touch()
    (digest,) = digests(start(folder, "--aggregator", "direct", workers=workers), workers)
    return digest


def go_on(folder: Path, after: int, until: int) -> None:
    """Lets workers that wait after one step go on until they wait after another."""

    progress = folder / "progress"

    def is_there() -> bool:
        return progress.exists() and progress.read_text() == str(until)

    (folder / f"go-{after}").touch()
    assert eventually(is_there)


def test_a_switch_that_is_killed_and_started_again_changes_no_bit(switches, tmp_path):
    (switch, _) = switches
    expected = digest_without_switches(tmp_path / "direct", WORKERS)
    start_all(switch)
    training = start(tmp_path, "--aggregator", "atp", "--switch", switch.address)
    assert eventually(switch.is_helping)
    go_on(tmp_path, FIRST, BEFORE)
    assert eventually(switch.is_combining)
    switch.kill()
    go_on(tmp_path, BEFORE, WITHOUT)  # the job does without the switch
    start_all(switch)
    assert eventually(switch.is_helping), "the job asks for the switch again"
    go_on(tmp_path, WITHOUT, LAST)
    assert eventually(switch.is_combining), "the switch combines again"
    (tmp_path / f"go-{LAST}").touch()
    assert digests(training, WORKERS) == {expected}
    assert eventually(lambda: not switch.is_helping(), 10)


@pytest.mark.nightly
def test_switches_of_racks_that_are_killed_and_started_again_change_no_bit(racks, tmp_path):
    core, left, right = racks
    expected = digest_without_switches(tmp_path / "direct", 4)
    start_all(*racks)
    coordinator = f"127.0.0.1:{free_ports(1, socket.SOCK_STREAM)[0]}"
    hosts = ("--aggregator", "atp", "--nodes", "2", "--coordinator", coordinator)
    training = [
        start(tmp_path, *hosts, "--node", str(node), "--switch", near.address, workers=2)
        for node, near in enumerate((left, right))
    ]
    assert all(eventually(one.is_helping) for one in racks)
    roles = [job.role for one in racks for job in one.status().assisted]
    assert roles == ["combines 4 of 4 workers in 2 racks", "combines 2 of 4 workers", "combines 2 of 4 workers"]
    go_on(tmp_path, FIRST, BEFORE)
    assert all(eventually(one.is_combining) for one in racks)
    core.kill()
    left.kill()
    go_on(tmp_path, BEFORE, WITHOUT)  # the job does without them
    start_all(core, left)
    assert all(eventually(one.is_helping) for one in racks)
    go_on(tmp_path, WITHOUT, LAST)
    assert eventually(core.is_combining), "the core gets the sums of both racks again"
    (tmp_path / f"go-{LAST}").touch()
    assert [digests(one, 2) for one in training] == [{expected}] * 2


def test_nothing_is_left_of_a_job_whose_workers_are_all_killed(switches, tmp_path):
    (switch, _) = switches
    start_all(switch)
    training = start(tmp_path, "--aggregator", "atp", "--switch", switch.address)
    assert eventually(switch.is_helping)
    (tmp_path / f"go-{FIRST}").touch()
    assert eventually(switch.is_combining)
    os.killpg(training.pid, signal.SIGKILL)
    for pid in subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True).stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    training.communicate()

    def is_clean() -> bool:
        status = switch.status()
        return not status.assisted and status.counters["entries_held"] == 0

    assert eventually(is_clean, 5)


def test_a_host_that_is_the_server_dies(switches, tmp_path):
    switch, server = switches
    start_all(switch, server)
    training = start(tmp_path, "--aggregator", "atp", "--switch", switch.address, JAXINA_SERVERS=server.address)
    assert eventually(server.is_helping)
    assert [job.role for job in server.status().assisted] == ["server 0 of 1"]
    go_on(tmp_path, FIRST, BEFORE)
    assert eventually(lambda: server.status().assisted[0].counters["results"] > 0)
    (tmp_path / f"go-{BEFORE}").touch()
    server.kill()
    killed = time.monotonic()
    output, _ = training.communicate(timeout=60)
    assert training.returncode != 0
    assert time.monotonic() - killed < 30, "no worker waits for its timeout of 300 s"
    assert "WORKER_LOST" in output and "a server of the job is gone" in output, output
