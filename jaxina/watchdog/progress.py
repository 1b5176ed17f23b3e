"""What this process has entered and waits for. Threads of the program write, the watchdog reads."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jaxina.watchdog.state import Wait


@dataclasses.dataclass
class _Run:
    stream: str
    members: tuple[int, ...]
    number: int
    what: str
    since: float


class Progress:
    """The runs of programs with collectives, and the compilations, of this process.

    Programs are counted by the set of processes that run them. A program's run may end long after its call has
    returned, so runs are ended by number.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entered: dict[str, int] = {}
        self._runs: dict[int, _Run] = {}
        self._compilations: dict[int, float] = {}
        self._numbers = itertools.count()

    def begin(self, members: Sequence[int], what: str) -> int:
        """Notes that this process has entered a run of a program of these processes. Returns the run's number."""
        stream = f"programs of processes {','.join(map(str, members))}"
        with self._lock:
            self._entered[stream] = self._entered.get(stream, 0) + 1
            number = next(self._numbers)
            self._runs[number] = _Run(stream, tuple(members), self._entered[stream], what, time.monotonic())
        return number

    def end(self, number: int) -> None:
        """Notes that a run has ended."""
        with self._lock:
            self._runs.pop(number, None)

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Notes that this process compiles a program, while the context lasts."""
        with self._lock:
            number = next(self._numbers)
            self._compilations[number] = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                del self._compilations[number]

    def compiles_for(self) -> float | None:
        """How many seconds the oldest compilation takes so far; None if there is none."""
        with self._lock:
            return time.monotonic() - min(self._compilations.values()) if self._compilations else None

    def entered(self) -> dict[str, int]:
        """How many runs this process has entered, by stream."""
        with self._lock:
            return dict(self._entered)

    def waits(self) -> list[Wait]:
        """The oldest run of each stream of several processes that has not ended."""
        now = time.monotonic()
        oldest: dict[str, _Run] = {}
        with self._lock:
            for run in self._runs.values():  # in the order in which they were entered
                if len(run.members) > 1:
                    oldest.setdefault(run.stream, run)
            return [Wait(r.stream, r.members, r.number, r.what, now - r.since, False) for r in oldest.values()]

    def forget(self) -> None:
        """Forgets all runs. The next one of each stream is its first again, in all processes."""
        with self._lock:
            self._entered.clear()
            self._runs.clear()


class Tokens:
    """Ends runs when XLA says that they are done. A thread waits for one after the other, in their order.

    Args:
      progress: where the runs are noted.
    """

    def __init__(self, progress: Progress):
        self._progress = progress
        self._waiting: collections.deque[tuple[int, Callable[[], Any]]] = collections.deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def end_after(self, number: int, wait: Callable[[], Any]) -> None:
        """Ends the run `number` as soon as `wait` returns or raises."""
        with self._changed:
            self._waiting.append((number, wait))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="jaxina-runs", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                number, wait = self._waiting.popleft()
            # What the program raises is for its caller, who sees it where the results are used.
            with contextlib.suppress(Exception):
                wait()
            del wait
            self._progress.end(number)


def engine_progress(
    under_way: Sequence[tuple[Sequence[int], int, int, tuple[int, int, float] | None]],
    owners: Callable[[Sequence[int]], Sequence[int]],
    describe: Callable[[int], str],
) -> tuple[dict[str, int], list[Wait]]:
    """Turns what the engine tells (`jaxina._native.under_way`) into streams and waits, one stream for each group.

    A process is where the slowest of its devices is.

    Args:
      under_way: what the engine tells.
      owners: the process of each device of a group.
      describe: says what a collective of the given identity is.
    """
    entered: dict[str, int] = {}
    waits: dict[str, Wait] = {}
    for group, _, submitted, waiting in under_way:
        members = tuple(dict.fromkeys(owners(group)))
        if len(members) < 2:
            continue
        stream = f"collectives of devices {','.join(map(str, group))}"
        entered[stream] = min(entered.get(stream, submitted), submitted)
        if waiting is not None:
            number, identity, seconds = waiting
            if stream not in waits or number < waits[stream].number:
                waits[stream] = Wait(stream, members, number, describe(identity), seconds, True)
    return entered, list(waits.values())
