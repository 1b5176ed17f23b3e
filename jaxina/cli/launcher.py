"""Starts the worker processes of a job and supervises them until all have ended.

It has one thread and one event loop. So no other thread exists when children are forked, which matters because they run
Python code between fork and exec. And everything is awaited in one place.

No child outlives the launcher. If the launcher dies, the kernel kills the children (PR_SET_PDEATHSIG). If it ends by
itself, it ends each child's whole process group. What a child has started in a session of its own is not the launcher's
to end. It may hold the child's pipes, so the launcher does not wait for their end without limit.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import errno
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from jaxina.cli.children import die_with, living_groups
from jaxina.cli.output_pipe import OutputPipe
from jaxina.cli.signals import name_of
from jaxina.cli.tagged_output import LineSplitter, TaggedOutput
from jaxina.control.open_files import make_room
from jaxina.errors import InvalidArgumentError, SystemCallError, WorkerLostError

# Seconds from SIGINT to SIGTERM after Ctrl-C. Python's `except`, `finally` and `atexit` run on SIGINT only.
INTERRUPT_GRACE = 5.0
TERMINATE_GRACE = 5.0  # seconds from SIGTERM to SIGKILL
_LOOK_EVERY = 0.05  # seconds between two looks for what workers have left behind
LAST_LINES = 12  # lines of a failed worker's stderr that are shown again
_FILES_PER_WORKER = 4  # its two pipes, its pidfd and its log
_FILES_TO_START_ONE = 16


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
      code: the exit code to pass on: that of the first failed worker, or 128 + signal as in shells; 0 if none failed. A
        worker that failed only because it lost another does not count as the first.
      reason: a sentence about the first failed worker; empty if none failed.
      last_lines: that worker's last lines of stderr.
      interrupted: whether the run was told to end, by Ctrl-C or a signal.
    """

    code: int
    reason: str = ""
    last_lines: tuple[str, ...] = ()
    interrupted: bool = False


@dataclasses.dataclass(frozen=True)
class _Failure:
    rank: int
    how: str  # such as "worker 1 (pid 7) was killed by SIGKILL"
    code: int
    last_lines: tuple[str, ...]
    follows: bool  # whether the worker failed only because it lost another


class _Worker:
    def __init__(self, rank: int, process: subprocess.Popen[bytes]):
        self.rank = rank
        self.process = process
        self.pidfd = os.pidfd_open(process.pid)
        self.last_lines: collections.deque[str] = collections.deque(maxlen=LAST_LINES)
        self.pipes: list[OutputPipe] = []
        self.ended = False

    def status(self) -> int:
        """Waits for the process's end. Returns its exit code, or minus the signal that killed it.

        It stays a zombie until the end of the run. So its number names its process group, and nobody else's.
        """
        result = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        assert result is not None
        return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status

    def close(self) -> None:
        os.close(self.pidfd)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def signal_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


class Launcher:
    """Runs the workers of this host.

    Worker 0 has this process's stdin; the others have none.

    Args:
      command: returns the command of the worker with a given rank.
      ranks: the ranks of the workers.
      environment: returns the variables of the worker with a given rank. They are added to this process's variables.
      output: gets the workers' output.
      failure_code: returns the code of the jaxina error that ended the worker with a given rank; empty if none did.
      failure_grace: seconds that the others have to end by themselves after a worker failed. They get an error that
        names that worker within a second or two.
    """

    def __init__(
        self,
        command: Callable[[int], Sequence[str]],
        ranks: Sequence[int],
        environment: Callable[[int], Mapping[str, str]],
        output: TaggedOutput,
        failure_code: Callable[[int], str],
        failure_grace: float,
    ):
        self._command = command
        self._ranks = ranks
        self._environment = environment
        self._output = output
        self._failure_code = failure_code
        self._failure_grace = failure_grace
        self._selector = selectors.DefaultSelector()
        self._workers: list[_Worker] = []
        self._failures: list[_Failure] = []
        self._interrupted_by: int | None = None
        self._ending = False
        self._terminate_at: float | None = None
        self._kill_at: float | None = None

    def run(self) -> Outcome:
        """Runs the workers until all of them and their output have ended.

        The first Ctrl-C or SIGTERM is passed on to the workers. Those that do not end by it get the next stronger
        signal after a while. A second Ctrl-C or SIGTERM kills them.
        """
        wakeup_read, wakeup_write = socket.socketpair()
        wakeup_read.setblocking(False)
        wakeup_write.setblocking(False)
        old_wakeup = signal.set_wakeup_fd(wakeup_write.fileno())
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it, so that the run goes on
            numbers.append(signal.SIGHUP)
        old_handlers = {number: signal.signal(number, self._interrupted) for number in numbers}
        self._selector.register(wakeup_read, selectors.EVENT_READ, lambda: wakeup_read.recv(64))
        try:
            self._start()
            self._supervise()
        finally:
            for worker in self._workers:
                worker.signal_group(signal.SIGKILL)
                worker.process.wait()
                worker.close()
            for number, handler in old_handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(old_wakeup)
            wakeup_read.close()
            wakeup_write.close()
            self._selector.close()
        return self._outcome()

    def _start(self) -> None:
        make_room(f"{len(self._ranks)} workers", _FILES_PER_WORKER * len(self._ranks) + _FILES_TO_START_ONE)
        for rank in self._ranks:
            if self._interrupted_by is not None:
                return
            worker = _Worker(rank, self._started(rank))
            self._workers.append(worker)
            if self._interrupted_by == signal.SIGINT:  # it came while this worker was not known yet
                worker.signal_group(signal.SIGINT)
            self._selector.register(worker.pidfd, selectors.EVENT_READ, lambda w=worker: self._ended(w))
            self._watch(worker, worker.process.stdout, self._output.out)
            self._watch(worker, worker.process.stderr, self._output.err, worker.last_lines.append)

    def _started(self, rank: int) -> subprocess.Popen[bytes]:
        parent, command = os.getpid(), self._command(rank)
        try:
            return subprocess.Popen(
                command,
                env={**os.environ, **self._environment(rank)},
                stdin=None if rank == 0 else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                preexec_fn=lambda: die_with(parent),
            )
        except OSError as error:
            if error.errno in (errno.ENOEXEC, errno.ENOENT, errno.EACCES):
                raise InvalidArgumentError(
                    f"{command[0]} cannot be started: {error.strerror}. It must be a program for this machine, or a "
                    "script whose first line is #! and an interpreter that is here"
                ) from error
            raise SystemCallError(f"worker {rank} cannot be started: {error.strerror}") from error

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

        splitter = LineSplitter(line, lambda text: self._output.progress(worker.rank, text))
        worker.pipes.append(OutputPipe(pipe, splitter, self._selector))

    def _supervise(self) -> None:
        while not self._all_ended() or self._reading() or self._left_behind():
            for key, _ in self._selector.select(self._patience()):
                if key.fd in self._selector.get_map():  # a worker's end may have read the end of its output
                    key.data()
            now = time.monotonic()
            if self._terminate_at is not None and now >= self._terminate_at:
                self._terminate_at = None
                self._ending = True
                self._end_all(signal.SIGTERM)
                self._kill_at = now + TERMINATE_GRACE
            if self._kill_at is not None and now >= self._kill_at:
                self._kill_at = now + TERMINATE_GRACE
                self._end_all(signal.SIGKILL)
                if self._all_ended():
                    self._stop_reading()
                    return

    def _all_ended(self) -> bool:
        return all(worker.ended for worker in self._workers)

    def _reading(self) -> bool:
        return any(pipe.open for worker in self._workers for pipe in worker.pipes)

    def _left_behind(self) -> bool:
        """Whether processes run that workers have started."""
        return not living_groups().isdisjoint(worker.process.pid for worker in self._workers)

    def _stop_reading(self) -> None:
        """Reads what was written until now, and no more: who still holds a pipe is beyond the reach of signals."""
        for worker in self._workers:
            for pipe in worker.pipes:
                pipe.drain()
                if pipe.open:
                    pipe.end()

    def _patience(self) -> float | None:
        times = [t for t in (self._terminate_at, self._kill_at) if t is not None]
        if self._all_ended() and not self._reading():
            times.append(time.monotonic() + _LOOK_EVERY)
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _ended(self, worker: _Worker) -> None:
        self._selector.unregister(worker.pidfd)
        status = worker.status()
        worker.ended = True
        if status != 0 and not self._ending and self._interrupted_by is None:
            self._failed(worker, status)
        if self._all_ended():
            # Descendants of a worker may still hold its pipes. The run is over for them too.
            self._ending = True
            self._end_all(signal.SIGTERM)
            if self._kill_at is None:
                self._kill_at = time.monotonic() + TERMINATE_GRACE

    def _failed(self, worker: _Worker, status: int) -> None:
        for pipe in worker.pipes:
            pipe.drain()  # so that the last lines are known
        if status < 0:
            how, code = f"was killed by {name_of(-status)}", 128 - status
        else:
            how, code = f"ended with exit code {status}", status
        follows = self._failure_code(worker.rank) == WorkerLostError.code
        how = f"worker {worker.rank} (pid {worker.process.pid}) {how}"
        self._failures.append(_Failure(worker.rank, how, code, tuple(worker.last_lines), follows))
        if self._terminate_at is None:
            self._terminate_at = time.monotonic() + self._failure_grace

    def _outcome(self) -> Outcome:
        interrupted = self._interrupted_by is not None
        if not self._failures:
            if self._interrupted_by is None:
                return Outcome(0)
            return Outcome(128 + self._interrupted_by, f"ended by {name_of(self._interrupted_by)}", interrupted=True)
        first = next((one for one in self._failures if not one.follows), self._failures[0])
        lost = ", ".join(str(one.rank) for one in self._failures if one.follows and one is not first)
        reason = first.how + (f"; worker {lost} failed because of that" if lost else "")
        return Outcome(first.code, reason, first.last_lines, interrupted)

    def _interrupted(self, number: int, _frame: Any) -> None:
        now = time.monotonic()
        again = self._interrupted_by is not None or self._ending
        self._interrupted_by = self._interrupted_by or number
        if again:
            self._terminate_at, self._kill_at = None, now
            self._ending = True
            self._output.drop()
            return
        if number == signal.SIGINT:
            self._end_all(signal.SIGINT)
            self._terminate_at = now + INTERRUPT_GRACE
        else:
            self._terminate_at = now

    def _end_all(self, number: int) -> None:
        for worker in self._workers:
            worker.signal_group(number)
