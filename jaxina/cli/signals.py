"""Signals: their names, and how the main thread waits for them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


def name_of(number: int) -> str:
    """The signal's name, such as SIGKILL. Most real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Makes a folder, which is removed at the end of the context, or when SIGTERM or SIGHUP ends the program within it.

    The handler raises no exception: that would be lost if it came in a callback, such as those of `os.fork`.
    """
    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        made = tempfile.TemporaryDirectory(prefix=prefix)

        def end(number: int, _frame: Any) -> None:
            shutil.rmtree(made.name, ignore_errors=True)
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

        for number in numbers:
            signal.signal(number, end)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        with made as folder:
            yield Path(folder)
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


class Signals:
    """Collects signals, from construction to the end of the context. The main thread must make it.

    The signals are written to a socket by the interpreter's own handler. A Python handler that set a `threading.Event`
    would not do: it runs in the main thread, and if that is just inside of the event's `wait`, it holds the lock that
    `set` needs. Besides, a signal just before `wait` blocks would not wake it.

    Args:
      numbers: the signals to collect.
    """

    def __init__(self, numbers: Iterable[signal.Signals]):
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._old_wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._old_handlers = {number: signal.signal(number, lambda *_: None) for number in numbers}

    def wait(self) -> signal.Signals:
        """Waits for the next signal, and returns it."""
        while True:
            number = self._reader.recv(1)[0]
            if number in self._old_handlers:  # the interpreter writes all signals that have a Python handler
                return signal.Signals(number)

    def send(self, number: signal.Signals) -> None:
        """Lets `wait` return `number`, as if the process had got the signal. Any thread may call it."""
        self._writer.send(bytes([number]))

    def __enter__(self) -> Signals:
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_wakeup)
        self._reader.close()
        self._writer.close()
