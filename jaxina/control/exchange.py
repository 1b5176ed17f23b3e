"""How the processes of a job tell each other something, as where each takes messages (xla_ffi/mpi/peers.h)."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any

from jaxina.config import split_address
from jaxina.control.store import Store
from jaxina.errors import NeverJoinedError, SystemCallError, WorkerLostError

_SLICE = 0.25  # seconds; the store's waits cannot be interrupted


def own_host_towards(coordinator: str | None) -> str:
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
    store: Store,
    prefix: str,
    process: int,
    own: Any,
    processes: int,
    timeout: float,
    ended: Callable[[], set[int]],
    absent: str,
) -> list[Any]:
    """Tells the others something, in what JSON knows; returns what all told, by process.

    Args:
      absent: what is said of a process that did not tell in time.

    Raises:
      NeverJoinedError: one did not tell within `timeout` seconds.
      WorkerLostError: one has ended.
    """
    store.set(f"{prefix}/{process}", json.dumps(own))
    deadline = time.monotonic() + timeout
    told = []
    for one in range(processes):
        while (text := store.get(f"{prefix}/{one}", _SLICE)) is None:
            if one in ended():
                raise WorkerLostError(f"process {one} ended while it was needed; see its output")
            if time.monotonic() > deadline:
                raise NeverJoinedError(f"process {one} {absent}")
        told.append(json.loads(text))
    return told
