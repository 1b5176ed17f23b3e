"""How the processes that `jaxina run` started become one JAX program without jaxina."""

from __future__ import annotations

import os

import jax


def join_processes() -> None:
    """Makes one JAX program of the processes that `jaxina run` started, as jaxina.init() does."""
    if "JAXINA_RANK" in os.environ:  # JAX itself reads JAX_COORDINATOR_ADDRESS, which `jaxina run` sets, too
        jax.distributed.initialize(
            num_processes=int(os.environ["JAXINA_PROCESSES"]), process_id=int(os.environ["JAXINA_RANK"])
        )
