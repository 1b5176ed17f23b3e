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

from jaxina.control.client import SwitchClient
from jaxina.errors import SwitchUnreachableError

STEPS = Path(__file__).with_name("atp_steps.py")
CLI = [sys.executable, "-m", "jaxina.cli"]
WORKERS = 3


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

    def __init__(self) -> None:
        self.address = f"127.0.0.1:{free_ports(1, socket.SOCK_STREAM)[0]}"
        self._data_port = free_ports(1, socket.SOCK_DGRAM)[0]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [*CLI, "switch", "--bind", self.address, "--data-ports", str(self._data_port), "--quiet"]
        self._process = subprocess.Popen(command)
        assert eventually(self.is_up, 60)

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


@pytest.fixture
def switches() -> Iterator[list[Switch]]:
    made = [Switch(), Switch()]
    yield made
    for one in made:
        one.kill()


def start(folder: Path, *options: str, **environment: str):
    command = [*CLI, "run", "-n", str(WORKERS), *options, str(STEPS), "120", "80", str(folder)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
    )


def digests(process) -> set[str]:
    output, _ = process.communicate(timeout=100)
    assert process.returncode == 0, output
    found = re.findall(r"parameters ([0-9a-f]{64})", output)
    assert len(found) == WORKERS, output
    return set(found)


def reached(folder: Path, step: int):
    def look() -> bool:
        file = folder / "progress"
        return file.exists() and int(file.read_text()) >= step

    return look


def test_a_switch_that_is_killed_and_started_again_changes_no_bit(switches, tmp_path):
    (switch, _) = switches
    (tmp_path / "direct").mkdir()
    for file in ("go", "end"):
        (tmp_path / "direct" / file).touch()
    expected = digests(start(tmp_path / "direct", "--aggregator", "direct"))
    assert len(expected) == 1

    switch.start()
    training = start(tmp_path, "--aggregator", "atp", "--switch", switch.address)
    assert eventually(reached(tmp_path, 20), 60)
    assert eventually(lambda: switch.status().assisted[0].counters["combined"] > 0)
    switch.kill()
    assert eventually(reached(tmp_path, 60), 60), "the job goes on without the switch"
    switch.start()
    assert eventually(lambda: len(switch.status().assisted) == 1, 20), "the job asks for the switch again"
    (tmp_path / "go").touch()
    assert eventually(reached(tmp_path, 119), 60)
    assert eventually(lambda: switch.status().assisted[0].counters["combined"] > 0), "the switch combines again"
    (tmp_path / "end").touch()
    assert digests(training) == expected
    assert eventually(lambda: not switch.status().assisted, 10)


def test_nothing_is_left_of_a_job_whose_workers_are_all_killed(switches, tmp_path):
    (switch, _) = switches
    switch.start()
    training = start(tmp_path, "--aggregator", "atp", "--switch", switch.address)
    assert eventually(reached(tmp_path, 20), 60)
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
    switch.start()
    server.start()
    training = start(tmp_path, "--aggregator", "atp", "--switch", switch.address, JAXINA_SERVERS=server.address)
    assert eventually(reached(tmp_path, 20), 60)
    assert [job.role for job in server.status().assisted] == ["server 0 of 1"]
    assert eventually(lambda: server.status().assisted[0].counters["results"] > 0)
    (tmp_path / "go").touch()
    server.kill()
    killed = time.monotonic()
    output, _ = training.communicate(timeout=60)
    assert training.returncode != 0
    assert time.monotonic() - killed < 30, "no worker waits for its timeout of 300 s"
    assert "WORKER_LOST" in output and "a server of the job is gone" in output, output
