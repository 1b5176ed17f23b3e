"""The random numbers for stochastic rounding in jax.numpy, with the bits of `jaxina.numerics.random_numbers`.

JAX has no 64-bit integers by default. So a number of 64 bits is a pair of 32-bit ones here: uint32[2], the upper half
first.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxina.numerics.random_numbers import FIRST_FACTOR, GOLDEN_GAMMA, SECOND_FACTOR, WITHIN_WORKER

_Pair = tuple[jax.Array, jax.Array]  # upper and lower halves, uint32


def random64(seed: int | jax.Array, index: int | jax.Array) -> jax.Array:
    """As `jaxina.numerics.random64`.

    Args:
      seed: a Python integer of 64 bits, or uint32[2].
      index: a Python integer of 64 bits, int32[] or uint32[] at least 0, or uint32[2].

    Returns:
      uint32[2].
    """
    return jnp.stack(_mixed(_pair(seed), _pair(index)))


def random_words(seed: int | jax.Array, count: int, first: int = 0) -> jax.Array:
    """As `jaxina.numerics.random_words`.

    Args:
      seed: a Python integer of 64 bits, or uint32[2].
      count: how many numbers to make, below 2^32. Static.
      first: the index of the first element. Static.

    Returns:
      uint32[count].
    """
    index = _add((jnp.zeros((), jnp.uint32), jnp.arange(count, dtype=jnp.uint32)), _pair(first))
    return _mixed(_pair(seed), index)[0]


def seed_up(own: jax.Array, rank: int | jax.Array) -> jax.Array:
    """As `Seeds.up`: uint32[2], from s1, uint32[2], and the device's rank, int32[] if traced."""
    return random64(own, 1 + rank)


def seed_within(own: jax.Array, worker: int) -> jax.Array:
    """As `Seeds.within`: uint32[2], from s1, uint32[2], and the worker's number."""
    return random64(own, WITHIN_WORKER + worker)


def seed_down(own: jax.Array) -> jax.Array:
    """As `Seeds.down`: uint32[2], from s1, uint32[2]."""
    return random64(own, 0)


def _pair(value: int | jax.Array) -> _Pair:
    if isinstance(value, int):
        return jnp.uint32((value >> 32) & 0xFFFFFFFF), jnp.uint32(value & 0xFFFFFFFF)
    if value.ndim == 0:
        return jnp.zeros((), jnp.uint32), value.astype(jnp.uint32)
    return value[..., 0], value[..., 1]


def _mixed(seed: _Pair, index: _Pair) -> _Pair:
    z = _add(seed, _times(_add(index, _pair(1)), GOLDEN_GAMMA))
    z = _times(_xor_right(z, 30), FIRST_FACTOR)
    z = _times(_xor_right(z, 27), SECOND_FACTOR)
    return _xor_right(z, 31)


def _add(a: _Pair, b: _Pair) -> _Pair:
    low = a[1] + b[1]
    return a[0] + b[0] + (low < a[1]).astype(jnp.uint32), low


def _times(a: _Pair, factor: int) -> _Pair:
    upper, lower = _pair(factor)
    high, low = _whole_product(a[1], lower)
    return high + a[0] * lower + a[1] * upper, low


def _whole_product(a: jax.Array, b: jax.Array) -> _Pair:
    """All 64 bits of a b, from products of 16-bit halves."""
    a1, a0, b1, b0 = a >> 16, a & 0xFFFF, b >> 16, b & 0xFFFF
    crossed, also = a0 * b1, a1 * b0
    middle = (a0 * b0 >> 16) + (crossed & 0xFFFF) + (also & 0xFFFF)
    return a1 * b1 + (crossed >> 16) + (also >> 16) + (middle >> 16), a * b


def _xor_right(a: _Pair, by: int) -> _Pair:
    return a[0] ^ (a[0] >> by), a[1] ^ ((a[1] >> by) | (a[0] << (32 - by)))
