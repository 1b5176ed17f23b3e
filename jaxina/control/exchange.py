"""How the processes of a job exchange facts, such as where each takes messages (xla_ffi/mpi/peers.h)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from jaxina.control.store import Store
from jaxina.errors import NeverJoinedError, WorkerLostError

_SLICE = 0.25  # seconds of one wait at the store, which cannot be interrupted; dead processes are looked for in between


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
    """Tells the other processes something, and waits for what they tell.

    Args:
      store: the key-value store.
      prefix: starts the keys in the store. No earlier exchange may have used it.
      process: this process's number.
      own: what this process tells, as values that JSON can hold.
      processes: how many processes there are.
      timeout: seconds to wait for the others.
      ended: returns the processes that are known to have ended.
      absent: the error message for a process that did not tell in time, to follow "process N".

    Returns:
      What each process told, by number.

    Raises:
      NeverJoinedError: a process did not tell within `timeout` seconds.
      WorkerLostError: a process has ended.
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
