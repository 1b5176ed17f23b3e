"""Short runs of killed_controllers.py. It forks, so it runs in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import killed_controllers
import pytest

from jaxina.control.client import SwitchClient
from jaxina.errors import SystemCallError


def test_a_controller_outlives_its_chip_and_says_so(tmp_path):
    sizes = {"devices": 1, "workers": 1, "slots": 2, "block_size": 64, "blocks_per_chunk": 1}
    with (
        killed_controllers.chip(tmp_path, "one-pipe", 0.0) as (process, arguments),
        killed_controllers.Controller(arguments) as controller,
        SwitchClient(controller.address, 60) as client,
    ):
        client.create_job(**sizes, join_timeout=60, heartbeat_timeout=60)
        process.kill()
        process.wait()
        with pytest.raises(SystemCallError, match="chip's process has ended"):
            client.create_job(**sizes, join_timeout=60, heartbeat_timeout=60)
        controller.process.terminate()
        assert controller.process.wait(timeout=60) == 0


def run(*arguments):
    command = [sys.executable, killed_controllers.__file__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=270)
    assert done.returncode == 0, done.stdout + done.stderr


def test_jobs_end_with_a_killed_controller_and_the_next_ones_sum():
    run("--kills", "2", "--loss", "0.02")


@pytest.mark.nightly
@pytest.mark.parametrize("size", ["two-pipes", "four-pipes"])
def test_the_same_over_several_pipes(size):
    run("--kills", "6", "--size", size, "--loss", "0.02")
