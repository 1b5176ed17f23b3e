"""What JAX knows about the other processes before it has devices, and how a process joins them."""

from __future__ import annotations

import functools
import threading
from typing import Any

import jax
from jax._src.distributed import global_state
from jax._src.xla_bridge import backends_are_initialized
from jaxlib import _jax

_lock = threading.Lock()
_make_gloo = _jax.make_gloo_tcp_collectives
_start_service = _jax.get_distributed_runtime_service


def client() -> Any:
    """The client of jax.distributed's key-value store; None if jax.distributed has not been initialised."""
    return global_state.client


def this_process() -> tuple[int, int]:
    """This process's number in jax.distributed and the number of processes."""
    return global_state.process_id, global_state.num_processes


def coordinator_address() -> str | None:
    """HOST:PORT of the service of jax.distributed; None if jax.distributed has not been initialised."""
    return global_state.coordinator_address


def backend_started() -> bool:
    """Whether JAX has looked for devices. After that, jax.distributed can no longer be initialised."""
    return backends_are_initialized()


def join(service: str, processes: int, rank: int, timeout: float) -> None:
    """Calls `jax.distributed.initialize` for a service that runs in none of the processes.

    It raises what `jax.distributed.initialize` raises.
    """

    def elsewhere(*_: Any, **__: Any) -> _ServiceElsewhere:
        return _ServiceElsewhere()

    # JAX always lets process 0 start the service. So the function that starts it is replaced meanwhile.
    with _lock:
        _jax.get_distributed_runtime_service = elsewhere
        try:
            jax.distributed.initialize(
                coordinator_address=service,
                num_processes=processes,
                process_id=rank,
                cluster_detection_method="deactivate",
                initialization_timeout=max(1, int(timeout)),
            )
        finally:
            _jax.get_distributed_runtime_service = _start_service


def gloo_at(host: str) -> None:
    """Lets XLA's gloo listen at this address. Without it, gloo listens at what this host's name resolves to."""
    _jax.make_gloo_tcp_collectives = functools.partial(_make_gloo, hostname=host)


class _ServiceElsewhere:
    """Stands in process 0 for the service, which runs elsewhere."""

    def shutdown(self) -> None:
        pass
