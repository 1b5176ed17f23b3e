"""Joins the processes that `jaxina run` started into one JAX program, without jaxina."""

from __future__ import annotations

import os

import jax


def join_processes() -> None:
    """Initializes jax.distributed if `jaxina run` started this process, as jaxina.init() would.

    The coordinator's address is not needed here: `jaxina run` sets JAX_COORDINATOR_ADDRESS, which JAX reads itself.
    """
    if "JAXINA_RANK" in os.environ:
        jax.distributed.initialize(
            num_processes=int(os.environ["JAXINA_PROCESSES"]), process_id=int(os.environ["JAXINA_RANK"])
        )
