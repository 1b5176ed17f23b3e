"""examples/unequal_links: everything in processes of its own, with a server that is killed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import quick_compilation
from patience import PATIENCE

TRAIN = Path(__file__).parents[2] / "examples/unequal_links/train.py"


def run(*arguments: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, **quick_compilation.VARIABLES}
    return subprocess.run(
        [sys.executable, TRAIN, *arguments], capture_output=True, text=True, timeout=PATIENCE, env=environment
    )


def test_training_goes_on_when_the_server_is_killed() -> None:
    done = run("--workers", "2", "--updates", "16", "--replica", "--kill-server", "6", "--every", "0.3", "--rate", "20")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the server is killed" in done.stdout
    (end,) = re.findall(r"(\d+) updates committed, .* greatest delay (\d+), below 16; accuracy (.*) %", done.stdout)
    committed, delay, accuracy = int(end[0]), int(end[1]), float(end[2])
    assert committed >= 12 and delay < 16 and accuracy > 50
    (served,) = re.findall(r"the replica serves, ([\d.]+) s later", done.stdout)
    assert float(served) < 5
    (before, after) = done.stdout.split("the server is killed")
    versions = [[int(v) for v in re.findall(r"^ +[\d.]+ +(\d+) ", part, re.MULTILINE)] for part in (before, after)]
    assert versions[0][-1] <= versions[1][0] and versions[1][-1] >= 16, "the model went back"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--kill-server", "5"], "--kill-server needs --replica"),
        (["--momentum", "1"], "not at least 0 and below 1"),
    ],
)
def test_what_cannot_be_is_said(arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert done.returncode != 0 and message in done.stderr and "Traceback" not in done.stderr, done.stderr
