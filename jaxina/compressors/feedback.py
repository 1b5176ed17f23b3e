"""The memory of error feedback under a learning-rate schedule. `Compressor.update` says what it is for."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxina.errors import InvalidArgumentError


def check_rate(rate: Any) -> None:
    """Raises InvalidArgumentError if a learning rate is a negative number or NaN. One that is traced is not checked."""
    if rate is not None and not isinstance(rate, jax.core.Tracer) and not float(rate) >= 0:
        raise InvalidArgumentError(f"the learning rate must be at least 0, not {float(rate)}")


def of_gradients(memory: jax.Array, rate: jax.Array | float) -> jax.Array:
    """Divides a memory of updates by the learning rate. At rate 0 nothing that is sent now could count: zeros."""
    return jnp.where(rate > 0, memory / jnp.where(rate > 0, rate, 1), 0)


def of_updates(error: jax.Array, rate: jax.Array | float, before: jax.Array) -> jax.Array:
    """Multiplies this step's error by the learning rate. At rate 0 the memory stays what it was before."""
    return jnp.where(rate > 0, rate * error, before)
