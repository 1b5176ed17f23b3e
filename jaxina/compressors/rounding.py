"""Rounding to integers, and cutting arrays into equal rows; shared by the quantizers."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def stochastic_round(x: jax.Array, key: jax.Array) -> jax.Array:
    """One of the two integers next to x, as float32, with expectation x. Integers stay what they are."""
    below = jnp.floor(x)
    return below + (jax.random.uniform(key, x.shape) < x - below)


def rows_of(x: jax.Array, length: int) -> jax.Array:
    """x in row-major order as [rows, length], filled up with zeros."""
    rows = -(-x.size // length)
    return jnp.pad(x.reshape(-1), (0, rows * length - x.size)).reshape(rows, length)


def from_rows(rows: jax.Array, shape: tuple[int, ...], size: int) -> jax.Array:
    """Undoes `rows_of`."""
    return rows.reshape(-1)[:size].reshape(shape)
