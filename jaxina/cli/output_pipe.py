"""A pipe with a worker's output, which an event loop reads."""

from __future__ import annotations

import fcntl
import os
import selectors
from typing import IO

from jaxina.cli.tagged_output import LineSplitter


class OutputPipe:
    """Reads a pipe into lines. It registers with the event loop, and closes by itself when the output ends.

    Args:
      pipe: the end to read from.
      splitter: gets what is read.
      selector: the event loop's. The data of its key is `read`.
    """

    def __init__(self, pipe: IO[bytes], splitter: LineSplitter, selector: selectors.BaseSelector):
        self._pipe = pipe
        self._splitter = splitter
        self._selector = selector
        selector.register(pipe, selectors.EVENT_READ, self.read)

    @property
    def open(self) -> bool:
        """Whether more output may come."""
        return not self._pipe.closed

    def read(self) -> int:
        """Reads once. Returns how many bytes came; 0 at the end of the output."""
        data = os.read(self._pipe.fileno(), 65536)
        if data:
            self._splitter.feed(data)
        else:
            self.end()
        return len(data)

    def drain(self) -> None:
        """Reads what was written until now.

        It reads no more than a pipe holds: somebody may go on writing.
        """
        left = fcntl.fcntl(self._pipe.fileno(), fcntl.F_GETPIPE_SZ) if self.open else 0
        while left > 0 and self.open and self._readable():
            left -= self.read()

    def end(self) -> None:
        """Takes the output to have ended, and closes the pipe. Whoever still writes gets SIGPIPE."""
        self._splitter.feed(b"")
        self._selector.unregister(self._pipe)
        self._pipe.close()

    def _readable(self) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self._pipe, selectors.EVENT_READ)
            return bool(selector.select(0))
