"""What JAX knows of the other processes before it has devices."""

from __future__ import annotations

from typing import Any

from jax._src.distributed import global_state
from jax._src.xla_bridge import backends_are_initialized


def client() -> Any:
    """The client of jax.distributed's key-value store, None if jax.distributed has not been initialised."""
    return global_state.client


def this_process() -> tuple[int, int]:
    """This process's number in jax.distributed and the number of processes."""
    return global_state.process_id, global_state.num_processes


def backend_started() -> bool:
    """Whether JAX has looked for devices; after that jax.distributed can no longer be initialised."""
    return backends_are_initialized()
