"""Runs `jaxina switch` in a namespace of the testbed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

from jaxina import testbed

PORT = 51000
_START_S = 30


@contextlib.contextmanager
def switch_at(namespace: str, host: str, *options: object) -> Iterator[str]:
    """Runs `jaxina switch` of one thread in a namespace. Yields its control address."""
    with any_switch_at(namespace, host, "--threads", 1, *options) as address:
        yield address


@contextlib.contextmanager
def any_switch_at(namespace: str, host: str, *options: object) -> Iterator[str]:
    """Runs `jaxina switch` in a namespace, with these options. Yields its control address."""
    read_end, write_end = os.pipe()
    command = [*testbed.Testbed.inside(namespace), sys.executable, "-m", "jaxina.cli", "switch", "--bind"]
    command += [f"{host}:{PORT}", "--quiet", "--announce-fd", str(write_end), *map(str, options)]
    process = subprocess.Popen(command, pass_fds=[write_end])
    os.close(write_end)
    try:
        yield os.read(read_end, 100).decode().strip()
    finally:
        os.close(read_end)
        process.terminate()
        process.wait(_START_S)
