"""Fakes of what the control plane uses: a data plane, a key-value store, a topology and an engine."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from jaxina._native import JobShape
from jaxina.control.data_plane import QueuePairs, Terms
from jaxina.control.roles import Combine
from jaxina.control.roll import Roll
from jaxina.errors import JaxinaError


class FakeDataPlane:
    """Remembers what the control service did to it."""

    terms = Terms()

    def __init__(self, ports: list[int] | None = None):
        self.ports = ports or [51001, 51002]
        self.jobs: dict[int, tuple[int, JobShape]] = {}  # job -> secret and shape
        self.aborted: dict[int, tuple[str, str]] = {}
        self.removed: list[int] = []
        self.refuse_with: Exception | None = None
        self.awaited: list[int] = []
        self.asked = 0  # how often statistics() was called
        self.asked_for: list[int] = []  # the jobs for which missing() was called
        self.connected: list[tuple[int, int, QueuePairs]] = []

    def add_job(self, job: int, secret: int, shape: JobShape) -> None:
        if self.refuse_with is not None:
            raise self.refuse_with
        self.jobs[job] = (secret, shape)

    def combine_job(self, job: int, secret: int, shape: JobShape, combine: Combine) -> None:
        self.jobs[job] = (secret, shape)

    def remove_job(self, job: int) -> None:
        del self.jobs[job]
        self.removed.append(job)

    def abort_job(self, job: int, code: str, message: str) -> None:
        self.aborted[job] = (code, message)

    def slots_that_fit(self, shape: JobShape) -> int:
        return 96 // shape.workers

    def statistics(self) -> dict[str, Any]:
        self.asked += 1
        return {
            "rejected": {"malformed": 2},
            "jobs": {job: {"updates": 10, "packets_sent": 20, "rejected": {"stale": 3}} for job in self.jobs},
        }

    def missing(self, job: int) -> list[int]:
        self.asked_for.append(job)
        return self.awaited

    def connect_queue_pairs(self, job: int, worker: int, end: QueuePairs) -> QueuePairs:
        self.connected.append((job, worker, end))
        return QueuePairs("10.0.0.9", 4791, 1024, (5, 6, 7), 8, 9, 0)


class FakeStore:
    """A key-value store for threads that stand for processes."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._changed = threading.Condition(threading.RLock())

    def set(self, key: str, value: str) -> None:
        with self._changed:
            assert key not in self._values, f"{key} was published twice"
            self._values[key] = value
            self._changed.notify_all()

    def get(self, key: str, timeout: float) -> str | None:
        with self._changed:
            self._changed.wait_for(lambda: key in self._values, timeout)
            return self._values.get(key)

    def look(self, key: str) -> str | None:
        return self._values.get(key)

    def claim(self, key: str, value: str) -> bool:
        with self._changed:
            new = key not in self._values
            if new:
                self.set(key, value)
            return new

    def look_below(self, folder: str) -> dict[str, str]:
        with self._changed:
            return {key[len(folder) :]: value for key, value in self._values.items() if key.startswith(folder)}

    def delete(self, key: str) -> None:
        with self._changed:
            for one in [one for one in self._values if one == key or (key[-1] == "/" and one.startswith(key))]:
                del self._values[one]


class FakeTopology:
    """Device d belongs to process d // devices."""

    def __init__(self, process: int, processes: int, devices: int = 1):
        self.process = process
        self.processes = processes
        self._devices = devices

    def owners(self, devices: Any) -> list[int]:
        return [device // self._devices for device in devices]


class FakeEngine:
    """Records aborts."""

    def __init__(self) -> None:
        self.aborts: list[tuple[list[int], str, str]] = []
        self.aborted = threading.Event()
        self.when = 0.0

    def abort(self, group: list[int], code: str, message: str) -> None:
        self.aborts.append((group, code, message))
        self.when = time.monotonic()
        self.aborted.set()

    @staticmethod
    def statistics() -> dict[str, int]:
        return {"collectives": 7}


@contextlib.contextmanager
def interrupting(add: Callable[[Any, grpc.Server], None], servicer: Any, stream: str) -> Iterator[Any]:
    """A service that answers nobody, and interrupts this process, as Ctrl-C does, once a stream has begun.

    Args:
      add: gRPC's function that adds such a service to a server.
      servicer: a service.
      stream: the name of its method.

    Yields:
      Its address, and an event that is set when the stream has ended.
    """
    over = threading.Event()

    def answer(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        context.add_callback(over.set)
        next(requests)
        over.wait(0.2)  # until then, who has begun the stream waits for the answer
        os.kill(os.getpid(), signal.SIGINT)
        over.wait(60)
        yield from ()

    setattr(servicer, stream, answer)
    server = grpc.server(ThreadPoolExecutor(1))
    add(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}", over
    finally:
        over.set()
        server.stop(None)


def in_threads(*calls: Callable[[], Any], timeout: float = 20) -> list[Any]:
    """Runs the calls at the same time. Returns their results, or the exceptions they raised, in order."""
    results: list[Any] = [None] * len(calls)

    def run(index: int) -> None:
        try:
            results[index] = calls[index]()
        except Exception as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
        assert not thread.is_alive(), "a call did not return in time"
    return results


def serve_roll(roll: Roll) -> None:
    """Calls the roll in a thread."""

    def run() -> None:
        with contextlib.suppress(JaxinaError, OSError, ValueError):
            roll.call()
            roll.stay()

    threading.Thread(target=run, daemon=True).start()


def eventually(condition: Callable[[], bool], timeout: float = 60) -> bool:
    """Waits for the condition. Returns whether it became true within the timeout.

    The default is long, since a machine that is busy with other tests takes long over anything. A test of a promise in
    seconds passes the promise.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
