"""Short runs of killed_controllers.py. It forks, so it runs in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import killed_controllers
import pytest

pytestmark = pytest.mark.timeout(280)


def run(*arguments):
    command = [sys.executable, killed_controllers.__file__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=270)
    assert done.returncode == 0, done.stdout + done.stderr


def test_jobs_end_with_a_killed_controller_and_the_next_ones_sum():
    run("--kills", "3", "--loss", "0.02")


@pytest.mark.nightly
@pytest.mark.parametrize("size", ["two-pipes", "four-pipes"])
def test_the_same_over_several_pipes(size):
    run("--kills", "6", "--size", size, "--loss", "0.02")
