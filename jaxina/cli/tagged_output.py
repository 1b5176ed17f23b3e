"""Shows the lines of many processes on one terminal, tagged with the worker's rank, and writes a file per worker."""

from __future__ import annotations

import contextlib
import io
import math
import os
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, TextIO, cast

from jaxina.errors import SystemCallError

_COLOURS = (36, 33, 35, 32, 34, 31, 96, 93, 95, 92, 94, 91)
_MAX_LINE = 1 << 20  # bytes
# How often a line is shown that is overwritten again and again, as a progress bar is.
_SECONDS_ON_TERMINAL = 0.2
_SECONDS_IN_PIPE = 10.0


class LineSplitter:
    """Turns a byte stream into lines.

    A carriage return lets the next text overwrite the line. Only the last state of such a line counts as the line. The
    states before are progress.

    Args:
      line: is called with each line.
      progress: is called with the states of a line that is not finished yet.
    """

    def __init__(self, line: Callable[[str], None], progress: Callable[[str], None] = lambda text: None):
        self._line = line
        self._progress = progress
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Takes the data that was read. No data means that the stream has ended."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if self._rest and (not data or len(self._rest) > _MAX_LINE):
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            self._line(_last_state(line))
        if b"\r" in self._rest:
            self._progress(_last_state(self._rest))
            shown = self._rest.rstrip(b"\r").rfind(b"\r")
            self._rest = self._rest[max(shown, 0) :]  # keep the last state only: a progress bar may go on for hours


def _last_state(line: bytes) -> str:
    """What a terminal shows of the line."""
    text = line.decode("utf-8", errors="replace").rstrip("\r")
    return text.rpartition("\r")[2]


def put(stream: TextIO, text: str) -> OSError | None:
    """Writes the text. If that fails, it returns the error, and drops what is written from then on.

    It waits for the reader also where the stream would not block. Some callers leave such a pipe to their programs.
    """
    try:
        if isinstance(stream, io.TextIOWrapper):
            _write(stream, text.encode(stream.encoding, stream.errors or "strict"))
        else:
            stream.write(text)
            stream.flush()
    except OSError as error:
        with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
        return error
    return None


def _write(stream: io.TextIOWrapper, data: bytes) -> None:
    buffer = cast("io.RawIOBase", stream.buffer)  # with python -u it is one: it may take a part, or nothing
    while data:
        try:
            taken = buffer.write(data)
        except BlockingIOError as error:
            taken = error.characters_written
        data = data[taken or 0 :]
        if data:
            _wait_for_reader(stream)
    while True:
        try:
            return stream.flush()
        except BlockingIOError:
            _wait_for_reader(stream)


def _wait_for_reader(stream: io.TextIOWrapper) -> None:
    writable = select.poll()
    writable.register(stream, select.POLLOUT)
    writable.poll()


class TaggedOutput:
    """Writes lines as ``[rank] line``. The tag is coloured if the stream is a terminal.

    If a stream or a file cannot be written, that is said once, and its text is dropped from then on: the workers' work
    is worth more than their output. Nothing is said if nobody reads the stream any more, as in `jaxina run ... | head`.

    Args:
      stdout: where `out` writes; None means `sys.stdout`.
      stderr: where `err` and `progress` write; None means `sys.stderr`.
      folder: gets a file RANK.log for each worker, with its lines, untagged. None for no files.

    Raises:
      SystemCallError: the folder cannot be made.
    """

    def __init__(self, stdout: TextIO | None = None, stderr: TextIO | None = None, folder: Path | None = None):
        self._stdout = stdout or sys.stdout
        self._stderr = stderr or sys.stderr
        self._folder = folder
        self._files: dict[int, IO[str]] = {}
        self._shown_at: dict[int, float] = {}  # progress, by rank
        self._writing: TextIO | None = None
        self._overwritable: TextIO | None = None  # where the last thing shown was progress
        if isinstance(self._stdout, io.TextIOWrapper):
            self._stdout.reconfigure(errors="backslashreplace")  # as stderr is: its encoding may lack characters
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise SystemCallError(f"cannot make {folder} (--log-dir): {error.strerror}") from error

    def out(self, rank: int, line: str) -> None:
        """Writes a line of a worker's stdout."""
        self._keep(rank, line)
        self._write(self._stdout, rank, line + "\n")

    def err(self, rank: int, line: str) -> None:
        """Writes a line of a worker's stderr."""
        self._keep(rank, line)
        self._write(self._stderr, rank, line + "\n")

    def progress(self, rank: int, text: str) -> None:
        """Shows a state of a line that will be overwritten: in place on a terminal, and now and then elsewhere."""
        terminal = self._stderr.isatty()
        now = time.monotonic()
        if now - self._shown_at.get(rank, -math.inf) < (_SECONDS_ON_TERMINAL if terminal else _SECONDS_IN_PIPE):
            return
        self._shown_at[rank] = now
        self._write(self._stderr, rank, text + ("" if terminal else "\n"))
        self._overwritable = self._stderr if terminal else None

    def drop(self) -> None:
        """Ends a write that is under way, to a reader that has stopped reading. It gets nothing from then on.

        To be called by a handler of a signal: only that interrupts the write, which then begins again.
        """
        if self._writing is None:
            return
        with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:  # it may be no file
            stopped = os.fstat(self._writing.fileno())
            for stream in (self._stdout, self._stderr):
                if os.path.samestat(os.fstat(stream.fileno()), stopped):
                    os.dup2(nowhere.fileno(), stream.fileno())

    def close(self) -> None:
        """Closes the workers' files."""
        for file in self._files.values():
            with contextlib.suppress(OSError):  # of a file that could not be written before
                file.close()
        self._files.clear()

    def _keep(self, rank: int, line: str) -> None:
        if self._folder is None:
            return
        path = self._folder / f"{rank}.log"
        try:
            if rank not in self._files:
                self._files[rank] = path.open("a", encoding="utf-8", buffering=1)
            self._files[rank].write(line + "\n")
        except OSError as error:
            self._folder = None
            self._complain(f"{path}: {error.strerror}. The run goes on without --log-dir")

    def _write(self, stream: TextIO, rank: int, text: str) -> None:
        tag = f"[{rank}]"
        if stream.isatty() and "NO_COLOR" not in os.environ:
            tag = f"\x1b[{_COLOURS[rank % len(_COLOURS)]}m{tag}\x1b[0m"
        progress, self._overwritable = self._overwritable, None
        if progress is not None:
            self._put(progress, "\r\x1b[K")
        self._put(stream, f"{tag} {text}")

    def _put(self, stream: TextIO, text: str) -> None:
        self._writing = stream
        error = put(stream, text)
        self._writing = None
        if error is not None and stream is not self._stderr and not isinstance(error, BrokenPipeError):
            self._complain(f"stdout: {error.strerror}. The run goes on without its output")

    def _complain(self, what: str) -> None:
        self._put(self._stderr, f"jaxina: cannot write {what}\n")
