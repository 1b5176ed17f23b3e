"""Random numbers for as many elements as a gradient has.

They cost about half of what `jax.random` takes for as many. A block of Threefry yields two words, of which
`jax.random.bits` keeps their exclusive or, so that a program divided among devices can make each part on its own. A
worker is mostly one device, so both words are kept here.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.extend.random import threefry_2x32


def words(key: jax.Array, count: int) -> jax.Array:
    """Makes independent words, uniform over all values: Threefry-2x32 (Salmon et al., SC 2011) of 0, 1, 2 and so on.

    Args:
      key: a `jax.random.key` of any kind.
      count: at most 2^32.

    Returns:
      uint32[count].
    """
    first, second = jax.random.bits(key, (2,), jnp.uint32)
    return threefry_2x32((first, second), jnp.arange(count, dtype=jnp.uint32))


def uniform(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Makes float32 of this shape, uniform over the multiples of 2^-24 in [0, 1)."""
    return ((words(key, math.prod(shape)) >> 8).astype(jnp.float32) * 2.0**-24).reshape(shape)


def coins(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Makes fair bits, bool of this shape. 32 of them take one word."""
    count = math.prod(shape)
    packed = words(key, -(-count // 32))
    bits = (packed[:, None] >> jnp.arange(32, dtype=jnp.uint32)) & 1
    return (bits != 0).reshape(-1)[:count].reshape(shape)
