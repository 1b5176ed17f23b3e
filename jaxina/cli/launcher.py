"""Starts the worker processes of a job and supervises them until all have ended.

One thread, one event loop: children are forked before any thread could exist (they need a call
between fork and exec), and everything is awaited in one place. No child outlives the launcher: the
kernel kills them if it dies (PR_SET_PDEATHSIG), and at an orderly end each child's whole process
group is ended.
"""

from __future__ import annotations

import collections
import ctypes
import dataclasses
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from jaxina.cli.tagged_output import LineSplitter, TaggedOutput

# After a worker failed, the others may end by themselves before they are told to: within a second or two they get an
# error that names it.
FAILURE_GRACE = 2.0  # seconds
# After Ctrl-C, from SIGINT to SIGTERM. Python's `except`, `finally` and `atexit` run on SIGINT only.
INTERRUPT_GRACE = 5.0
TERMINATE_GRACE = 5.0  # from SIGTERM to SIGKILL
LAST_LINES = 12
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
      code: the exit code to pass on: the first failed worker's, 128 + signal as shells do, 0 if
      none failed.
      reason: one sentence about the first failed worker; empty if none failed.
      last_lines: its last lines of stderr.
    """

    code: int
    reason: str = ""
    last_lines: tuple[str, ...] = ()


class _Worker:
    def __init__(self, rank: int, process: subprocess.Popen[bytes]):
        self.rank = rank
        self.process = process
        self.pidfd = os.pidfd_open(process.pid)
        self.last_lines: collections.deque[str] = collections.deque(maxlen=LAST_LINES)
        self.ended = False

    def signal_group(self, number: int) -> None:
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass


class Launcher:
    """Runs `command(r)` as worker r of `count`, with `environment(r)` on top of this process's
    variables.
    """

    def __init__(
        self,
        command: Callable[[int], Sequence[str]],
        count: int,
        environment: Callable[[int], Mapping[str, str]],
        output: TaggedOutput,
    ):
        self._command = command
        self._count = count
        self._environment = environment
        self._output = output
        self._selector = selectors.DefaultSelector()
        self._workers: list[_Worker] = []
        self._open_pipes = 0
        self._outcome = Outcome(0)
        self._terminate_at: float | None = None
        self._kill_at: float | None = None
        self._interrupts = 0

    def run(self) -> Outcome:
        """Returns when every worker and its output have ended. The first Ctrl-C or SIGTERM is passed on to the workers;
        what does not end by it gets the next stronger signal. The second kills them.
        """
        wakeup_read, wakeup_write = socket.socketpair()
        wakeup_read.setblocking(False)
        wakeup_write.setblocking(False)
        old_wakeup = signal.set_wakeup_fd(wakeup_write.fileno())
        old_handlers = {
            number: signal.signal(number, self._interrupted)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        }
        self._selector.register(wakeup_read, selectors.EVENT_READ, lambda: wakeup_read.recv(64))
        try:
            self._start()
            self._supervise()
        finally:
            for worker in self._workers:
                worker.signal_group(signal.SIGKILL)
                worker.process.wait()
                os.close(worker.pidfd)
            for number, handler in old_handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(old_wakeup)
            wakeup_read.close()
            wakeup_write.close()
            self._selector.close()
        return self._outcome

    def _start(self) -> None:
        parent = os.getpid()
        for rank in range(self._count):
            process = subprocess.Popen(
                self._command(rank),
                env={**os.environ, **self._environment(rank)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                preexec_fn=lambda: die_with(parent),
            )
            worker = _Worker(rank, process)
            self._workers.append(worker)
            self._selector.register(
                worker.pidfd, selectors.EVENT_READ, lambda w=worker: self._ended(w)
            )
            self._watch(worker, process.stdout, self._output.out)
            self._watch(worker, process.stderr, self._output.err, worker.last_lines.append)

    def _watch(
        self,
        worker: _Worker,
        pipe: IO[bytes] | None,
        write: Callable[[int, str], None],
        remember: Callable[[str], Any] = lambda line: None,
    ) -> None:
        assert pipe is not None

        def line(text: str) -> None:
            write(worker.rank, text)
            remember(text)

        splitter = LineSplitter(line)

        def readable() -> None:
            data = os.read(pipe.fileno(), 65536)
            splitter.feed(data)
            if not data:
                self._selector.unregister(pipe)
                pipe.close()
                self._open_pipes -= 1

        self._selector.register(pipe, selectors.EVENT_READ, readable)
        self._open_pipes += 1

    def _supervise(self) -> None:
        while self._open_pipes or not all(worker.ended for worker in self._workers):
            for key, _ in self._selector.select(self._patience()):
                key.data()
            now = time.monotonic()
            if self._terminate_at is not None and now >= self._terminate_at:
                self._terminate_at = None
                self._end_all(signal.SIGTERM)
                self._kill_at = now + TERMINATE_GRACE
            if self._kill_at is not None and now >= self._kill_at:
                self._kill_at = now + TERMINATE_GRACE
                self._end_all(signal.SIGKILL)

    def _patience(self) -> float | None:
        times = [t for t in (self._terminate_at, self._kill_at) if t is not None]
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _ended(self, worker: _Worker) -> None:
        self._selector.unregister(worker.pidfd)
        status = worker.process.wait()
        worker.ended = True
        if status != 0 and self._terminate_at is None and self._kill_at is None:
            self._failed(worker, status)
        if all(w.ended for w in self._workers):
            # Descendants of a worker may hold its pipes; the run is over for them too.
            self._end_all(signal.SIGTERM)
            if self._kill_at is None:
                self._kill_at = time.monotonic() + TERMINATE_GRACE

    def _failed(self, worker: _Worker, status: int) -> None:
        self._drain(worker)
        if status < 0:
            name = signal.Signals(-status).name
            how, code = f"was killed by {name}", 128 - status
        else:
            how, code = f"ended with exit code {status}", status
        self._outcome = Outcome(
            code, f"worker {worker.rank} (pid {worker.process.pid}) {how}", tuple(worker.last_lines)
        )
        self._terminate_at = time.monotonic() + FAILURE_GRACE

    def _drain(self, worker: _Worker) -> None:
        """Reads what the worker wrote before it ended, so that its last lines are known."""
        for key in list(self._selector.get_map().values()):
            pipe = key.fileobj
            if pipe in (worker.process.stdout, worker.process.stderr):
                while key.fd in self._selector.get_map() and _readable(key.fd):
                    key.data()

    def _interrupted(self, number: int, _frame: Any) -> None:
        self._interrupts += 1
        if self._interrupts == 1:
            if self._outcome.code == 0:
                self._outcome = Outcome(128 + number, f"ended by {signal.Signals(number).name}")
            now = time.monotonic()
            if number == signal.SIGINT:
                self._end_all(signal.SIGINT)
                self._terminate_at = now + INTERRUPT_GRACE
            else:
                self._terminate_at = now
        else:
            self._terminate_at = None
            self._kill_at = time.monotonic()

    def _end_all(self, number: int) -> None:
        for worker in self._workers:
            worker.signal_group(number)


def _readable(fd: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        return bool(selector.select(0))


def die_with(parent: int) -> None:
    """Between fork and exec: the kernel kills this process when the launcher's thread ends."""
    if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:  # it ended before the line above
        os.kill(os.getpid(), signal.SIGKILL)


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]
