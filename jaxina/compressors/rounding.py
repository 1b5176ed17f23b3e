"""Rounding to integers, and cutting arrays into equal rows or parts."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxina.compressors.random_numbers import uniform


def stochastic_round(x: jax.Array, key: jax.Array) -> jax.Array:
    """Rounds each element at random to one of the two integers next to it, with the element as the expectation.

    Args:
      x: float32, of any shape. Integers stay as they are.
      key: a `jax.random.key`.

    Returns:
      float32, of the shape of `x`.
    """
    below = jnp.floor(x)
    return below + (uniform(key, x.shape) < x - below)


def rows_of(x: jax.Array, length: int) -> jax.Array:
    """Cuts `x`, read in row-major order, into [rows, length]. The last row is filled up with zeros."""
    rows = -(-x.size // length)
    return jnp.pad(x.reshape(-1), (0, rows * length - x.size)).reshape(rows, length)


def from_rows(rows: jax.Array, shape: tuple[int, ...], size: int) -> jax.Array:
    """Undoes `rows_of`: drops the padding and restores `shape`, of `size` elements."""
    return rows.reshape(-1)[:size].reshape(shape)


def parts_of(x: jax.Array, parts: int) -> jax.Array:
    """Cuts `x`, read in row-major order, into [parts, length]. The last parts are filled up with zeros."""
    length = -(-x.size // parts)
    return jnp.pad(x.reshape(-1), (0, parts * length - x.size)).reshape(parts, length)
