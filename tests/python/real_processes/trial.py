"""A job whose workers sum until an error ends it."""

from __future__ import annotations

import pathlib
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

import numpy as np

from jaxina import _native, config, job, joining
from jaxina.errors import JaxinaError
from real_processes.members import FileStore, OneDeviceEach

fork = get_context("fork")

_ELEMENTS = 200_000
_UP_WITHIN = 60.0  # seconds in which all workers of a trial must have summed once
_END_WITHIN = 30.0  # seconds in which a worker must report an error and end; otherwise it counts as hanging

Settings = dict[str, Any]


def job_settings(transport: str, switch: Any, **changes: Any) -> Settings:
    settings: Settings = {"aggregator": transport, "join_timeout": 30.0, "timeout": 60.0, "heartbeat_timeout": 20.0}
    if transport == "udp":
        assert switch is not None
        settings["switch"] = switch.address
    return settings | changes


def _work(
    rank: int, workers: int, folder: pathlib.Path, settings: Settings, before: Any, elements: int, tell: Any
) -> None:
    """Sums until an error ends it, then sends which error it was, when it came, and how many sums were wrong."""
    try:
        if before is not None:
            before(rank)
        joining.jax_store = lambda: FileStore(folder)
        # JAX has no computations here, and asking it for them would start its backend.
        job._finish_computations = lambda: None
        job._current = job._start(config.resolve(**settings), OneDeviceEach(rank, workers), 1)
        group = list(range(workers))
        mine = np.arange(elements, dtype=np.float32) % 1000 + rank
        expected = (np.arange(elements, dtype=np.float32) % 1000) * workers + sum(range(workers))
        sums = wrong = 0
        try:
            while True:
                wrong += not np.array_equal(_native.all_reduce(group, rank, mine), expected)
                sums += 1
                if sums == 1:
                    tell.send({"rank": rank, "exact": not wrong})
        except JaxinaError as error:
            ended = {"code": error.code, "message": error.message, "at": time.monotonic()}
            tell.send({"rank": rank, **ended, "wrong": wrong})
        job.shutdown()
    except JaxinaError as error:  # raised when it joined or when it left
        tell.send({"rank": rank, "code": error.code, "message": error.message, "at": time.monotonic()})
    tell.send({"rank": rank, "ended": True})


class Trial:
    """Starts `workers` processes that sum arrays. As a context manager it ends all of them."""

    def __init__(
        self,
        workers: int,
        settings: Settings,
        before: Callable[[int], None] | None = None,
        elements: int = _ELEMENTS,
    ):
        self._folder = tempfile.TemporaryDirectory(prefix="deaths-")
        self._ends = []
        self._told: list[list[dict[str, Any]]] = [[] for _ in range(workers)]
        self.processes = []
        for rank in range(workers):
            receive, send = fork.Pipe(duplex=False)
            arguments = (rank, workers, pathlib.Path(self._folder.name), settings, before, elements, send)
            process = fork.Process(target=_work, args=arguments, daemon=True)
            process.start()
            send.close()
            self.processes.append(process)
            self._ends.append(receive)

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.join()
        self._folder.cleanup()

    def _hear(self, rank: int, what: str, deadline: float) -> dict[str, Any] | None:
        """Returns the worker's first message with the key `what`, or None if it ends or takes too long."""
        while True:
            for message in self._told[rank]:
                if what in message:
                    return message
            try:
                if not self._ends[rank].poll(max(0.0, deadline - time.monotonic())):
                    return None
                self._told[rank].append(self._ends[rank].recv())
            except EOFError:
                return None

    def wait_until_summing(self) -> None:
        deadline = time.monotonic() + _UP_WITHIN
        for rank in range(len(self.processes)):
            told = self._hear(rank, "exact", deadline)
            if told is None:
                raise RuntimeError(f"worker {rank} does not sum: {self._told[rank]}")
            if not told["exact"]:
                raise RuntimeError(f"worker {rank} has a wrong sum")

    def error_of(self, rank: int) -> dict[str, Any] | None:
        return self._hear(rank, "code", time.monotonic() + _END_WITHIN)

    def ends(self, rank: int) -> bool:
        """Returns whether the worker leaves the job and its process ends, after its error."""
        ended = self._hear(rank, "ended", time.monotonic() + _END_WITHIN)
        self.processes[rank].join(_END_WITHIN)
        return ended is not None and self.processes[rank].exitcode == 0
