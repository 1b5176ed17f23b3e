"""Hosts the service of jax.distributed, where the processes of a job find each other."""

from __future__ import annotations

import os
from typing import Any


def host_service(address: str, processes: int) -> Any:
    """Starts the service of jax.distributed. The service ends when the returned object is deleted.

    A process that ends does not wait for the others. By default JAX lets each wait up to five minutes at its exit,
    since the service usually is in process 0 and must outlive the others. This service is in none of the processes, and
    the launcher must see at once that a process has failed.

    Raises:
      RuntimeError: it cannot start.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # as `import jax` does: no log of what goes well
    from jaxlib import _jax  # a part of JAX that is imported in a quarter of the time that JAX takes

    return _jax.get_distributed_runtime_service(address, processes, shutdown_timeout=0)
