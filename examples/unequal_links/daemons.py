"""Starts the scheduler, the server and the replica of a job on this machine, and ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


class Fabric:
    """The daemons of a job, from `start` to the end of the context.

    Args:
      folder: where their logs go.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen] = {}
        self._killed = False

    def start(self, scheduler: Sequence[object], model: Path, replica: bool) -> str:
        """Starts them. Returns the scheduler's address."""
        reader, writer = os.pipe()
        self._start("scheduler", "--bind", "127.0.0.1:0", "--announce-fd", writer, *scheduler, pass_fds=(writer,))
        os.close(writer)
        with open(reader) as announced:
            address = announced.readline().strip()
        if not address:
            raise SystemExit(f"the scheduler did not start: {self._log('scheduler')}")
        self._start("server", "--scheduler", address, "--model", model)
        if replica:
            self._start("replica", "--scheduler", address)
        return address

    def kill_server(self) -> None:
        """Kills the server, as a crash of its machine would."""
        self._killed = True
        self._running["server"].kill()

    def check(self) -> None:
        """Raises SystemExit with its log if a daemon has ended by itself."""
        for name, process in self._running.items():
            if process.poll() is not None and not (name == "server" and self._killed):
                raise SystemExit(f"the {name} has ended: {self._log(name)}")

    def __enter__(self) -> Fabric:
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._running.values()):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, name: str, *arguments: object, pass_fds: Sequence[int] = ()) -> None:
        command = [sys.executable, "-m", "jaxina.cli", "fabric", name, *map(str, arguments)]
        with (self._folder / f"{name}.log").open("w") as log:
            self._running[name] = subprocess.Popen(command, stderr=log, pass_fds=pass_fds)

    def _log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()[-2000:]
