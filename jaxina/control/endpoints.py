"""How the processes of a job learn where each takes messages (xla_ffi/mpi/peers.h)."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable

from jaxina.config import split_address
from jaxina.control.store import Store
from jaxina.errors import NeverJoinedError, SystemCallError, WorkerLostError

_SLICE = 0.25  # seconds; the store's waits cannot be interrupted

Endpoint = tuple[str, int, int]  # numeric host, port, secret


def own_host(coordinator: str | None) -> str:
    """The numeric address of this host on the way to the job's coordinator (HOST:PORT); loopback where there is none.

    Raises:
      SystemCallError: there is no way.
    """
    if coordinator is None:
        return "127.0.0.1"
    host, port = split_address(coordinator)
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as way:
            way.connect(address)  # sends nothing
            return str(way.getsockname()[0])
    except OSError as error:
        raise SystemCallError(f"no way to the job's coordinator {coordinator}: {error}") from error


def exchange(
    store: Store, prefix: str, process: int, own: Endpoint, processes: int, timeout: float, ended: Callable[[], set[int]]
) -> list[Endpoint]:
    """Tells the others this process's endpoint; returns those of all, by process.

    Raises:
      NeverJoinedError: one did not tell within `timeout` seconds.
      WorkerLostError: one has ended.
    """
    store.set(f"{prefix}/{process}", json.dumps(own))
    deadline = time.monotonic() + timeout
    return [own if one == process else _wait(store, f"{prefix}/{one}", one, deadline, ended) for one in range(processes)]


def _wait(store: Store, key: str, process: int, deadline: float, ended: Callable[[], set[int]]) -> Endpoint:
    while (text := store.get(key, _SLICE)) is None:
        if process in ended():
            raise WorkerLostError(f"process {process} ended before it could be sent a message; see its output")
        if time.monotonic() > deadline:
            raise NeverJoinedError(
                f"process {process} sends no messages, though others do: every process must run the same program; one that "
                "computes long before needs a longer JAXINA_TIMEOUT"
            )
    host, port, secret = json.loads(text)
    return host, port, secret
