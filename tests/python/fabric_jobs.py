"""Jobs of `jaxina.fabric` in one process, over loopback, for tests."""

from __future__ import annotations

import contextlib
import threading

import numpy as np

from jaxina.errors import JaxinaError, WorkerLostError
from jaxina.fabric.service import fabric_pb2 as pb
from jaxina.fabric.service.client import Client
from jaxina.fabric.service.daemon import SchedulerDaemon
from jaxina.fabric.service.model_server import ModelServer
from jaxina.fabric.service.session import ask_status
from jaxina.fabric.service.settings import JobSettings

ELEMENTS = 20_000
FAST = 12_500_000  # bytes per second
WAIT = 60.0  # seconds that nothing here takes


def update_of(rank: int, count: int, elements: int = ELEMENTS) -> np.ndarray:
    """Whole numbers, whose sums are exact in any order."""
    return np.random.default_rng((rank, count)).integers(-8, 9, elements).astype(np.float32)


def kill(host: Client | ModelServer) -> None:
    """Does to the others what the death of the host's process would: all its connections break, and nothing is said."""
    host._session._leaving = True  # nobody is left who could be told
    host._session._stream.cancel()
    host._receiver.close()
    host._deliveries.close()


class Fabric:
    """A job. Its workers are made as they are needed."""

    def __init__(
        self, stack: contextlib.ExitStack, tmp_path, replica: bool = False, elements: int = ELEMENTS, **settings
    ):
        bound = 1e9 if replica else None
        settings = {"workers": 6, "rate": FAST, "divergence_bound": bound, "patience": 30.0} | settings
        self.stack = stack
        self.daemon = stack.enter_context(SchedulerDaemon(JobSettings(**settings), "127.0.0.1:0"))
        self.log = tmp_path / "commits"
        first = np.zeros(elements, np.float32)
        self.server = stack.enter_context(ModelServer(self.daemon.address, "127.0.0.1:0", first, self.log))
        self.replica = stack.enter_context(ModelServer(self.daemon.address, "127.0.0.1:0")) if replica else None

    def plan_together(self) -> None:
        """Lets the scheduler plan only when all workers have an update, however late one is: so that there are sums. It
        still looks for late turns."""
        job = self.daemon._service.job
        usual = job._plan

        def plan(now: int) -> None:
            if len(job.ready) in (0, sum(host.role == pb.WORKER for host in job.hosts)):
                usual(now)

        job._plan = plan

    def worker(self, rank: int) -> Client:
        return self.stack.enter_context(Client(self.daemon.address, rank))

    def status(self):
        return ask_status(self.daemon.address, WAIT, None, None)


def train(workers: list[Client], rounds: int) -> dict[tuple[int, int], bool | JaxinaError]:
    """Lets all submit updates at once, round after round. Returns which are committed, or why they failed."""
    outcomes: dict[tuple[int, int], bool | JaxinaError] = {}
    all_have_it = threading.Barrier(len(workers), timeout=WAIT)

    def work(rank: int, client: Client) -> None:
        try:
            _, version = client.model(WAIT)
            all_have_it.wait()
            for count in range(rounds):
                outcomes[rank, count] = WorkerLostError("it does not know")
                outcome = client.submit(update_of(rank, count), version).result(WAIT)
                outcomes[rank, count] = outcome.committed
                version = outcome.version
            client.finish(WAIT)
        except JaxinaError as error:
            outcomes[rank, -1] = error

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def total(outcomes) -> np.ndarray:
    return sum((update_of(*which) for which, told in outcomes.items() if told is True), np.zeros(ELEMENTS, np.float32))
