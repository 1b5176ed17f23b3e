"""`jaxina switch --backend tofino`: its arguments, the chip's file, and a dry run."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tofino_fakes import BUSY, CHIP, soon

from jaxina.cli import data_planes
from jaxina.control.client import SwitchClient
from jaxina.controller import chip
from jaxina.errors import InvalidArgumentError


def jaxina(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "jaxina.cli", "switch", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=2 * BUSY,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "arguments,message",
    [
        (["--backend", "tofino", "--chip", "x", "--threads", "2"], "need --backend software"),
        (["--backend", "tofino", "--chip", "x", "--port-rate", "100"], "need --backend software"),
        (["--dry-run"], "need --backend tofino"),
    ],
)
def test_arguments_that_do_not_go_together(arguments, message):
    code, err = jaxina("--bind", "127.0.0.1:0", *arguments)
    assert code == 2 and message in err and "Traceback" not in err


def test_what_a_chip_needs(tmp_path):
    file = tmp_path / "chip.toml"
    file.write_text(CHIP.format(size="one-pipe"))
    for path, dry_run, why in (
        (None, True, "needs --chip FILE"),
        (tmp_path / "nowhere.toml", True, "nowhere.toml"),
        (file, False, "no module bfrt_grpc"),
    ):
        opened = data_planes.tofino(path, "127.0.0.1:1", dry_run)
        with pytest.raises(InvalidArgumentError, match=why), opened:
            pass


def test_a_dry_run_logs_its_writes(tmp_path):
    file, log = tmp_path / "chip.toml", tmp_path / "switch.log"
    file.write_text(CHIP.format(size="one-pipe"))
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "jaxina.cli", "switch", "--bind", "127.0.0.1:0"]
            + ["--backend", "tofino", "--chip", str(file), "--dry-run"],
            stderr=stderr,
        )
    try:
        assert soon(lambda: "control at" in log.read_text()), log.read_text()
        address = log.read_text().partition("control at ")[2].partition(",")[0]
        with SwitchClient(address, BUSY) as client:
            client.create_job(
                devices=2,
                workers=2,
                slots=4,
                block_size=64,
                blocks_per_chunk=1,
                join_timeout=30,
                heartbeat_timeout=30,
            )
        assert "insert pipe.Ingress.job_admission.udp_updates job=" in log.read_text()
        process.terminate()
        assert process.wait(timeout=BUSY) == 0 and "Traceback" not in log.read_text()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    "change,why",
    [
        (('"one-pipe"', '"three-pipes"'), "three-pipes"),
        (('address = "198.18.0.1"', ""), "'address' is missing"),
        (('"198.18.0.1"', '"elsewhere"'), "elsewhere"),
        (("speed = 25", "speed = 26"), "port 4 has a speed"),
        (("02:00:00:00:01:02", "02:00"), "no MAC address"),
        (("port = 132", "port = 133"), "port 133"),
        (("[[host]]", "[cpu]\nport = 64\ninterface = 'x'\nmac = '03:00:00:00:00:01'\n[[host]]"), "that of a group"),
        (("[[host]]", "[cpu]\nport = 64\ninterface = 'x'\nmac = '02:00:00:00:01:01'\n[[host]]"), "of a host"),
        (("[[host]]", "[cpu]\nport = 512\ninterface = 'x'\nmac = '02:00:00:00:00:09'\n[[host]]"), "port 512"),
        (("[[host]]", "[cpu]\nport = 196\ninterface = 'x'\nmac = '02:00:00:00:00:09'\n[[host]]"), "come round"),
        (("[[host]]", "[cpu]\nport = 64\nmac = '02:00:00:00:00:09'\n[[host]]"), "'interface' is missing"),
        (("[[host]]", "[flow_control]\nmode = 'pfc'\n[[host]]"), "a priority from 0 to 7"),
        (("[[host]]", "[flow_control]\nmode = 'pfc'\npriority = 8\n[[host]]"), "a priority from 0 to 7"),
        (("[[host]]", "[flow_control]\nmode = 'pfc'\npriority = true\n[[host]]"), "a priority from 0 to 7"),
        (("[[host]]", "[flow_control]\nmode = 'pause'\npriority = 3\n[[host]]"), "give mode"),
    ],
)
def test_a_file_that_cannot_be_is_refused(tmp_path, change, why):
    text = CHIP.format(size="one-pipe")
    file = tmp_path / "chip.toml"
    file.write_text(text.replace(*change, 1))
    with pytest.raises(InvalidArgumentError, match=why):
        chip.read(file)
