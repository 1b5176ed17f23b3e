"""`jaxina fabric`: the commands as processes, and their errors."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from control_fakes import eventually

from jaxina.fabric.commit_log import replay
from jaxina.fabric.service.client import Client

WAIT = 60.0


def start(log: Path, *arguments: object) -> subprocess.Popen:
    with log.open("w") as out:
        command = [sys.executable, "-m", "jaxina.cli", "fabric", *map(str, arguments)]
        return subprocess.Popen(command, stderr=out, stdout=out, env=os.environ | {"COLUMNS": "200"})


def jaxina(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "jaxina.cli", "fabric", *map(str, arguments)]
    environment = os.environ | {"COLUMNS": "200"}
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT, env=environment)


def test_a_job_from_the_command_line(tmp_path):
    log = tmp_path / "scheduler.log"
    running = [start(log, "scheduler", "-n", 1, "--bind", "127.0.0.1:0", "--rate", 100, "--learning-rate", 0.5)]
    try:
        at = re.compile(r"scheduling for 1 workers at (\S+)")
        assert eventually(lambda: at.search(log.read_text()) is not None, WAIT)
        (address,) = at.findall(log.read_text())
        first = np.arange(100, dtype=np.float32)
        np.save(tmp_path / "model.npy", first)
        files = ("--model", tmp_path / "model.npy", "--log", tmp_path / "commits", "--save", tmp_path / "end.npy")
        running.append(start(tmp_path / "server.log", "server", "--scheduler", address, *files))
        with Client(address, 0) as client:
            weights, version = client.model(WAIT)
            np.testing.assert_array_equal(weights, first)
            assert client.submit(np.ones(100, np.float32), version).result(WAIT).committed
            told = json.loads(jaxina("status", "--scheduler", address, "--json").stdout)
            assert told["decided"] == "1" and told["hosts"][0]["committed"] == "1"
            shown = jaxina("status", "--scheduler", address).stdout
            assert "server (serves)" in shown and "1 of 1 turns are decided, 0 of them lost" in shown
        running[1].send_signal(signal.SIGTERM)
        assert running[1].wait(WAIT) == 0, (tmp_path / "server.log").read_text()
        np.testing.assert_array_equal(np.load(tmp_path / "end.npy"), first + 0.5)
        assert replay(tmp_path / "commits").weights.tobytes() == (first + np.float32(0.5)).tobytes()
    finally:
        for process in running:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["scheduler", "-n", 1, "--bind", "nowhere"], "--bind"),
        (["scheduler", "-n", 1, "--momentum", 1.5], "a momentum of 1.5"),
        (["scheduler", "-n", 1, "--nesterov"], "Nesterov's momentum needs a momentum above 0"),
        (["scheduler", "-n", 1, "--compressor", "zip"], "no compressor 'zip'"),
        (["scheduler", "-n", 1, "--measure", "--rates", "x"], "choose one"),
        (["scheduler", "-n", 1, "--divergence-bound", 0], "divergence bound of 0"),
        (["server", "--model", "/nowhere.npy"], "--model /nowhere.npy"),
        (["server", "--model", __file__], "--model"),
        (["replica", "--scheduler", "here"], "--scheduler"),
        (["status", "--scheduler", "here"], "--scheduler"),
    ],
)
def test_bad_arguments(arguments, message):
    done = jaxina(*arguments)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr, done.stderr
