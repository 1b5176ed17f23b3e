"""The control service that the first process of a group runs in its own process, and calls to those of other groups."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from jaxina.config import Configuration
from jaxina.control import service
from jaxina.control.client import SwitchClient
from jaxina.control.interfaces import at_free_port
from jaxina.control.rendezvous import Presence
from jaxina.control.server import ControlServer
from jaxina.control.servers_at_workers import ServersAtWorkers
from jaxina.control.session import has_left
from jaxina.control.tls import tls_of
from jaxina.errors import WorkerLostError

LEADER = 0
"""The worker that is the first process of a group."""

_ANSWER_TIMEOUT = 5.0  # seconds that the first process of a group may take to answer a call


class LeaderControl:
    """The control services of a process's groups. Any thread may call it.

    Args:
      configuration: this process's.
      host: the numeric address at which the other processes reach this one.
    """

    def __init__(self, configuration: Configuration, host: str):
        self._configuration = configuration
        self._host = host
        self._tls = tls_of(configuration)
        self._clients: dict[str, SwitchClient] = {}
        self._server: ControlServer | None = None
        self._lock = threading.Lock()  # guards the two above

    @property
    def is_serving(self) -> bool:
        """Whether this process's own service has been needed."""
        return self._server is not None

    @property
    def address(self) -> str:
        """Where this process's own service listens. It starts when it is first needed."""
        with self._lock:
            if self._server is None:
                # What a switch tells its owner of all jobs would disturb the program's output. Each session tells of
                # the errors of its own job.
                if self._configuration.log != "debug":
                    logging.getLogger(service.__name__).setLevel(logging.ERROR)
                host = f"[{self._host}]" if ":" in self._host else self._host
                token = self._configuration.token
                self._server = at_free_port(
                    self._configuration.ports or (),
                    host,
                    lambda port: ControlServer(ServersAtWorkers(), f"{host}:{port}", token, tls=self._tls),
                )
            return self._server.address

    def client(self, control: str, leader: str) -> SwitchClient:
        """Calls the service at `control`. `leader` is how errors name the process that runs it."""
        with self._lock:
            if control not in self._clients:
                self._clients[control] = SwitchClient(
                    control,
                    min(_ANSWER_TIMEOUT, self._configuration.join_timeout),
                    self._configuration.token,
                    gone=lambda why: WorkerLostError(
                        f"{leader} is gone: the control service in its process does not answer ({why}); see its output"
                    ),
                    at_worker=LEADER,
                    tls=self._tls,
                )
            return self._clients[control]

    def close(self) -> None:
        if self._server is not None:
            self._server.stop(WorkerLostError(has_left([LEADER])))
        for client in self._clients.values():
            client.close()


def name_of_leader(processes: Sequence[Presence]) -> str:
    """How errors name the first process of a group."""
    return f"worker {LEADER} ({processes[LEADER].place})"
