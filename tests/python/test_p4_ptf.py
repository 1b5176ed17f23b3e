"""PTF's tests of the Tofino program (p4/ptf), on the interpreter behind virtual interfaces."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PORTS = 3
WITHIN = 300  # seconds


@contextlib.contextmanager
def interfaces():
    """Makes pairs of virtual interfaces. Yields the names of both ends: the switch's, and the tests'."""
    pairs = [(f"sw{n}-{os.getpid()}", f"host{n}-{os.getpid()}") for n in range(PORTS)]

    def ip(*arguments, check=True):
        subprocess.run(["ip", "link", *arguments], check=check, capture_output=True)

    try:
        for ours, theirs in pairs:
            ip("add", ours, "type", "veth", "peer", "name", theirs)
            for end in (ours, theirs):
                ip("set", end, "addrgenmode", "none", "up")  # else Linux sends frames of its own
        yield list(zip(*pairs, strict=True))
    finally:
        for ours, _ in pairs:
            ip("delete", ours, check=False)


@contextlib.contextmanager
def switch(size, names):
    """Starts the interpreter behind interfaces. Yields the address of its control service."""
    command = [
        sys.executable,
        "-m",
        "conformance.behind_interfaces",
        "--interpret",
        size,
        "--interfaces",
        ",".join(names),
    ]
    with subprocess.Popen(command, cwd=ROOT / "p4", stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            assert line.startswith("control service at "), line
            yield line.split()[-1]
        finally:
            process.kill()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and iproute2")
@pytest.mark.skipif(not importlib.util.find_spec("ptf"), reason="needs the package ptf")
@pytest.mark.parametrize("size, words", [("one-pipe", 64)])
def test_the_interpreter_passes(tmp_path, size, words):
    with interfaces() as (ours, theirs), switch(size, ours) as control:
        command = [sys.executable, Path(sys.executable).parent / "ptf", "--test-dir", ROOT / "p4/ptf"]
        command += [f"--interface={port}@{name}" for port, name in enumerate(theirs)]
        command += ["--test-params", f"control='{control}';words={words}"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=WITHIN)
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
        assert "Ran 5 tests" in done.stdout + done.stderr
