"""A process that takes commands as lines, and answers each with lines of which the last is `ok` or `error`."""

from __future__ import annotations

import subprocess

_EXIT_TIMEOUT = 10.0


class ProgramError(Exception):
    """The program refused a command, or ended."""


class CommandProcess:
    def __init__(self, path: str):
        self._path = path
        self._process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *command: object) -> list[list[str]]:
        """Sends a command, and returns the words of the lines before the last. Raises ProgramError if it failed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, command)) + "\n")
        self._process.stdin.flush()
        lines = []
        while True:
            line = self._process.stdout.readline().split()
            if not line or line[0] == "error":
                raise ProgramError(" ".join(line) or f"{self._path} ended: {self._process.wait()}")
            if line[0] == "ok":
                return lines
            lines.append(line)

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_EXIT_TIMEOUT)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
