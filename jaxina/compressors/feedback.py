"""The memory of error feedback under a learning-rate schedule. `Compressor.update` says what it is for."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxina.errors import InvalidArgumentError


def check_rate(rate: Any) -> None:
    """Raises InvalidArgumentError if a learning rate is no finite number of at least 0. A traced one is not checked."""
    if rate is None or isinstance(rate, jax.core.Tracer):
        return
    array = np.asarray(rate)
    if array.shape or not jnp.issubdtype(array.dtype, jnp.number) or jnp.iscomplexobj(array):
        raise InvalidArgumentError(f"the learning rate must be a number, not {rate!r}")
    if not 0 <= array < np.inf:
        raise InvalidArgumentError(f"the learning rate must be at least 0 and finite, not {float(array)}")


def of_gradients(memory: jax.Array, rate: jax.Array | float) -> jax.Array:
    """Divides a memory of updates by the learning rate. At rate 0 nothing that is sent now could count: zeros."""
    return jnp.where(rate > 0, memory / jnp.where(rate > 0, rate, 1), 0)


def of_updates(error: jax.Array, rate: jax.Array | float, before: jax.Array) -> jax.Array:
    """Multiplies this step's error by the learning rate. At rate 0 the memory stays what it was before."""
    return jnp.where(rate > 0, rate * error, before)
