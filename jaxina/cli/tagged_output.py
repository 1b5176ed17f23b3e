"""Many processes' lines on one terminal, each tagged with its worker's rank."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TextIO

_COLOURS = (36, 33, 35, 32, 34, 31, 96, 93, 95, 92, 94, 91)
_MAX_LINE = 1 << 20


class LineSplitter:
    """Turns a byte stream into lines. Of a line that was overwritten by carriage returns only the
    last state counts.
    """

    def __init__(self, line: Callable[[str], None]):
        self._line = line
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Takes what was read; no data means the end."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if self._rest and (not data or len(self._rest) > _MAX_LINE):
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            text = line.decode("utf-8", errors="replace").rstrip("\r")
            self._line(text.rpartition("\r")[2])


class TaggedOutput:
    """Writes `[rank] line`; the tag is coloured where the stream is a terminal."""

    def __init__(self, stdout: TextIO | None = None, stderr: TextIO | None = None):
        self._stdout = stdout or sys.stdout
        self._stderr = stderr or sys.stderr

    def out(self, rank: int, line: str) -> None:
        _write(self._stdout, rank, line)

    def err(self, rank: int, line: str) -> None:
        _write(self._stderr, rank, line)


def _write(stream: TextIO, rank: int, line: str) -> None:
    tag = f"[{rank}]"
    if stream.isatty() and "NO_COLOR" not in os.environ:
        tag = f"\x1b[{_COLOURS[rank % len(_COLOURS)]}m{tag}\x1b[0m"
    try:
        stream.write(f"{tag} {line}\n")
        stream.flush()
    except BrokenPipeError:
        # Nobody reads any more (`jaxina run ... | head`); the workers go on to their end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
