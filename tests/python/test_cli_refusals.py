"""Command lines that cannot work: one line that names the option, exit code 2 or 1, and never a traceback."""

from __future__ import annotations

import logging
import socket
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from control_fakes import eventually

from jaxina.cli import app as app_module
from jaxina.cli.app import main
from jaxina.errors import JobRejectedError
from jaxina.fabric.service.daemon import SchedulerDaemon
from jaxina.fabric.service.settings import JobSettings


@pytest.fixture
def jaxina(monkeypatch, capfd):
    """Runs a command in this process, where it takes no second. Returns its exit code and what it wrote on stderr."""
    monkeypatch.setenv("COLUMNS", "200")
    logger = logging.getLogger("jaxina")
    handlers, level = list(logger.handlers), logger.level

    def run(*arguments: object) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", ["jaxina", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, capfd.readouterr().err

    yield run
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.mark.parametrize("token", ["", "short", "two words of 24 letters."])
@pytest.mark.parametrize("command", [["keeper", "-n", 1], ["switch", "--bind", "127.0.0.1:0"], ["fabric", "status"]])
def test_a_file_without_a_token_is_not_taken_for_no_token(jaxina, tmp_path, command, token):
    file = tmp_path / "token"
    file.write_text(f"{token}\n")
    code, err = jaxina(*command, "--token-file", file)
    assert code == 2 and f"--token-file {file}: token is not allowed: give 16 to 256 printable" in err, err


HUGE = 10**23
AT_NODE = ["doctor", "--nodes", 2, "--node"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([*AT_NODE, 0, "--coordinator", "foo"], "--coordinator: 'foo' is not HOST:PORT"),
        ([*AT_NODE, 1, "--coordinator", "foo"], "--coordinator: 'foo' is not HOST:PORT"),
        (["run", "-n", 1, "--coordinator", "foo", "true"], "--coordinator: 'foo' is not HOST:PORT"),
        (
            ["run", "-n", 1, "--nodes", 2, "--aggregator", "direct", "--coordinator", "h:70000", "true"],
            "--coordinator: 'h:70000' is not HOST:PORT",
        ),
        (["status", "--coordinator", "foo"], "--coordinator: 'foo' is not HOST:PORT"),
        (["run", "-n", 1, "--stats-json", "/tmp", "true"], "--stats-json /tmp: this is a folder"),
        (["run", "-n", 1, "--trace", "/tmp", "true"], "--trace /tmp: this is a folder"),
        (["bench", "-n", 2, "--json", "/tmp"], "--json /tmp: this is a folder"),
        (["bench", "-n", 2, "--plot", "/tmp"], "--plot /tmp: this is a folder"),
        (["certify", "--json", "/tmp"], "--json /tmp: this is a folder"),
        (["sim", "--seeds", "0:3", "--json", "/nowhere/x.json"], "--json /nowhere/x.json: there is no folder"),
        (["sim", "--seeds", "0:3", "--jobs", HUGE], "--jobs"),
        (["sim", "--seeds", "²"], "--seeds takes A:B with A < B, or one seed, not '²'"),
        (["sim", "--seeds", "1" * 5000], "--seeds takes A:B"),
        (["fabric", "scheduler", "-n", 1, "--rate", "inf"], "--rate"),
        (["fabric", "scheduler", "-n", 1, "--rate", "nan"], "--rate"),
        (["fabric", "scheduler", "-n", 1, "--delay-bound", HUGE], "--delay-bound"),
        (["switch", "--loss-seed", HUGE], "--loss-seed"),
        (["switch", "--aggregators", HUGE], "--aggregators"),
        (["switch", "--bind", "127.0.0.1:0", "--aggregators", 10**9], "a switch has at most"),
    ],
)
def test_what_cannot_be_is_refused_before_the_work(jaxina, arguments, message):
    code, err = jaxina(*arguments)
    assert code == 2 and message in err and "Traceback" not in err, err


@pytest.mark.parametrize(
    "data", [b"", b"PK\x03\x04junk", b"\x93NUMPY\x01", b"text"], ids=["empty", "zip", "cut", "text"]
)
def test_a_file_that_is_no_model(jaxina, tmp_path, data):
    file = tmp_path / "model.npy"
    file.write_bytes(data)
    code, err = jaxina("fabric", "server", "--model", file)
    assert code == 2 and f"--model {file}: " in err, err


@pytest.fixture
def model(tmp_path):
    np.save(tmp_path / "model.npy", np.zeros(4, np.float32))
    return tmp_path / "model.npy"


@pytest.mark.parametrize("save, message", [("/nowhere/end.npy", "there is no folder"), ("/tmp", "this is a folder")])
def test_a_model_that_could_not_be_saved_is_not_trained(jaxina, model, save, message):
    code, err = jaxina("fabric", "server", "--model", model, "--save", save)
    assert code == 2 and f"--save {save}: {message}" in err, err


def test_results_that_cannot_be_written_at_the_end_are_one_line(jaxina, tmp_path):
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    code, err = jaxina("sim", "--seeds", 0, "--json", full)
    assert code == 1 and f"--json {full}: cannot write the file: No space left on device" in err, err


def test_a_model_that_cannot_be_saved_at_the_end_is_one_line(jaxina, model, tmp_path):
    full = tmp_path / "full.npy"
    full.symlink_to("/dev/full")
    with SchedulerDaemon(JobSettings(workers=1), "127.0.0.1:0") as daemon:
        job = daemon._service.job

        def end_when_it_has_begun():
            if eventually(lambda: job.scheduler is not None, 60):
                daemon._thread.call(daemon._service.end, JobRejectedError("over"))  # once the server knows that

        ending = threading.Thread(target=end_when_it_has_begun)
        ending.start()
        code, err = jaxina("fabric", "server", "--model", model, "--scheduler", daemon.address, "--save", full)
        ending.join()
    assert code == 1 and f"--save {full}: cannot write the file: No space left on device" in err, err
    assert "Traceback" not in err


def test_a_doctor_takes_the_first_port_that_is_free(jaxina, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("JAXINA_PORTS", f"{port}-{port}")
        doctor = ["doctor", "--nodes", 1, "--node", 0, "--coordinator", "127.0.0.1:0", "--json"]
        code, err = jaxina(*doctor)
        assert code == 2 and f"JAXINA_PORTS={port}-{port}: no port of 127.0.0.1 in this range can be used" in err, err
        monkeypatch.setenv("JAXINA_PORTS", f"{port}-{min(port + 20, 65535)}")
        assert jaxina(*doctor)[0] == 0


@pytest.mark.parametrize("debug", [False, True])
def test_the_system_names_a_file_in_one_line_and_debug_shows_where(jaxina, monkeypatch, debug):
    monkeypatch.setattr(app_module.info, "_table", lambda settings: Path("/nowhere/x").read_text())
    if debug:
        with pytest.raises(FileNotFoundError):
            jaxina("--debug", "info")
    else:
        code, err = jaxina("info")
        assert code == 1 and err == "jaxina: SYSTEM: /nowhere/x: No such file or directory\n"
