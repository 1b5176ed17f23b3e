"""A switch in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys


class Switch:
    """A `jaxina switch` in a process of its own."""

    def __init__(
        self, bind: str = "127.0.0.1:0", prefix: tuple[str, ...] = (), options: tuple[str, ...] = (), threads: int = 1
    ):
        read, write = os.pipe()
        command = [*prefix, sys.executable, "-m", "jaxina.cli", "switch", "--bind", bind, "--threads", str(threads)]
        self.process = subprocess.Popen(
            [*command, "--quiet", *options, "--announce-fd", str(write)], pass_fds=[write], stderr=subprocess.DEVNULL
        )
        os.close(write)
        with open(read) as announced:
            self.address = announced.readline().strip()
        if not self.address:
            raise RuntimeError("the switch did not start")

    def __enter__(self) -> Switch:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
