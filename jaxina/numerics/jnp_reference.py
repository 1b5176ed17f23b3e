"""Block fixed point in jax.numpy. It can be jitted, and gives the same bits as `jaxina.numerics.reference`.

XLA's CPU code flushes subnormal floats to zero. Scaling by a power of two only changes the exponent, so this module
does it on the bits, in 32-bit integers. The only float operation is the conversion of an int32, whose result is never
subnormal.

Values cannot be checked under `jax.jit`. The exponent byte 255 has no scale; callers must not pass it to functions that
scale.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from jaxina.numerics.blocks import (
    DEFAULT_BLOCK_SIZE,
    NON_FINITE_EXPONENT,
    block_count,
    check_exponent_count,
    log2_workers,
    quantized_limit,
)

_MAGNITUDE = 0x7FFFFFFF
_FRACTION = 0x007FFFFF
_HIDDEN_ONE = 0x00800000
_INFINITY = 0x7F800000
_MINUS_INFINITY = 0xFF800000
_QUIET_NAN = 0x7FC00000
_FRACTION_BITS = 23


def block_exponents(x: jax.Array, block_size: int = DEFAULT_BLOCK_SIZE, *, finite_only: bool = False) -> jax.Array:
    """As `jaxina.numerics.block_exponents`: float32[N] -> uint8[ceil(N / k)].

    The exponent byte b equals the largest biased exponent field of the block's float32 values.

    Args:
      x: float32, of any shape, read in row-major order.
      block_size: k. Static.
      finite_only: leave non-finite values out; otherwise their block's byte is 255. Static.

    Raises:
      TypeError: `x` is not float32.
    """
    fields = _exponent_field(_bits(x))
    if finite_only:
        fields = jnp.where(fields == NON_FINITE_EXPONENT, 0, fields)
    blocks = block_count(fields.size, block_size)
    padded = jnp.pad(fields, (0, blocks * block_size - fields.size))
    return padded.reshape(blocks, block_size).max(axis=1).astype(jnp.uint8)


def quantize(x: jax.Array, exponents: jax.Array, workers: int, block_size: int = DEFAULT_BLOCK_SIZE) -> jax.Array:
    """As `jaxina.numerics.quantize` with 32-bit words, rounding to nearest: float32[N], uint8[ceil(N / k)] -> int32[N].

    For x = significand 2^(e - 150), the word is ``significand 2^(e - 150 + S)``, rounded and clamped.

    Args:
      x: float32, of any shape, read in row-major order.
      exponents: the largest byte of all workers for each block, none of them 255.
      workers: n. Static.
      block_size: k. Static.

    Raises:
      TypeError: `x` is not float32.
      ValueError: the number of exponents is not that of the blocks, or n is out of range.
    """
    bits = _bits(x)
    power = _scale_exponent(exponents, workers, bits.size, block_size)
    shift = jnp.maximum(_exponent_field(bits), 1) - 150 + power
    limit = jnp.uint32(quantized_limit(workers))
    magnitude = jnp.minimum(_shifted(_significand(bits), shift), limit).astype(jnp.int32)
    word = jnp.where(bits > _MAGNITUDE, -magnitude, magnitude)
    return jnp.where(_finite(bits), word, 0)


def dequantize(words: jax.Array, exponents: jax.Array, workers: int, block_size: int = DEFAULT_BLOCK_SIZE) -> jax.Array:
    """As `jaxina.numerics.dequantize` with 32-bit words: int32[N], uint8[ceil(N / k)] -> float32[N].

    Args:
      words: the sum over all workers.
      exponents: the bytes that the words were quantized with, none of them 255.
      workers: n. Static.
      block_size: k. Static.

    Raises:
      ValueError: the number of exponents is not that of the blocks, or n is out of range.
    """
    flat = words.astype(jnp.int32).reshape(-1)
    power = _scale_exponent(exponents, workers, flat.size, block_size)
    bits = _bits(flat.astype(jnp.float32))
    field = _exponent_field(bits) - power
    significand = _significand(bits)
    normal = (field.astype(jnp.uint32) << _FRACTION_BITS) | (bits & _FRACTION)
    # If rounding carries out of the fraction, the bits are those of the smallest normal number, which is correct.
    subnormal = _shifted(significand, field - 1)
    magnitude = jnp.where(field >= 255, jnp.uint32(_INFINITY), jnp.where(field > 0, normal, subnormal))
    magnitude = jnp.where(flat == 0, jnp.uint32(0), magnitude)
    return _as_float(magnitude | (bits & ~jnp.uint32(_MAGNITUDE)))


def non_finite_sum(arrays: Sequence[jax.Array]) -> jax.Array:
    """As `jaxina.numerics.non_finite_sum`: one float32[N] per worker -> float32[N] of NaN, +Inf, -Inf or 0."""
    bits = jnp.stack([_bits(array) for array in arrays])
    plus = (bits == _INFINITY).any(axis=0)
    minus = (bits == jnp.uint32(_MINUS_INFINITY)).any(axis=0)
    nan = ((bits & _MAGNITUDE) > _INFINITY).any(axis=0) | (plus & minus)
    kinds = [jnp.uint32(_QUIET_NAN), jnp.uint32(_INFINITY), jnp.uint32(_MINUS_INFINITY)]
    return _as_float(jnp.select([nan, plus, minus], kinds, jnp.uint32(0)))


def all_reduce_reference(arrays: Sequence[jax.Array], block_size: int = DEFAULT_BLOCK_SIZE) -> jax.Array:
    """As `jaxina.numerics.all_reduce_reference`, for float32 only: one array per worker -> their sum.

    Args:
      arrays: one float32 array per worker, all of one shape.
      block_size: k. Static.

    Raises:
      TypeError: an array is not float32.
      ValueError: there are too many arrays.
    """
    exponents = jnp.stack([block_exponents(array, block_size, finite_only=True) for array in arrays]).max(axis=0)
    words = functools.reduce(jnp.add, (quantize(array, exponents, len(arrays), block_size) for array in arrays))
    y = _bits(dequantize(words, exponents, len(arrays), block_size))
    special = _bits(non_finite_sum(arrays))
    return _as_float(jnp.where(special == 0, y, special)).reshape(arrays[0].shape)


def _bits(x: jax.Array) -> jax.Array:
    if x.dtype != jnp.float32:
        raise TypeError(f"block fixed point carries float32, not {x.dtype}")
    return jax.lax.bitcast_convert_type(x, jnp.uint32).reshape(-1)


def _as_float(bits: jax.Array) -> jax.Array:
    return jax.lax.bitcast_convert_type(bits, jnp.float32)


def _exponent_field(bits: jax.Array) -> jax.Array:
    return ((bits & _MAGNITUDE) >> _FRACTION_BITS).astype(jnp.int32)


def _significand(bits: jax.Array) -> jax.Array:
    """The fraction, with the leading one that the format of normal numbers leaves out."""
    return (bits & _FRACTION) | jnp.where(_exponent_field(bits) > 0, jnp.uint32(_HIDDEN_ONE), 0)


def _finite(bits: jax.Array) -> jax.Array:
    return (bits & _MAGNITUDE) < _INFINITY


def _scale_exponent(exponents: jax.Array, workers: int, elements: int, block_size: int) -> jax.Array:
    check_exponent_count(exponents.size, elements, block_size)
    per_block = 157 - log2_workers(workers) - exponents.astype(jnp.int32).reshape(-1)
    return jnp.repeat(per_block, block_size, total_repeat_length=exponents.size * block_size)[:elements]


def _shifted(significand: jax.Array, power: jax.Array) -> jax.Array:
    """rint(significand 2^power), ties to even, for a significand below 2^24; 2^31 if the result would exceed that."""
    left = jnp.clip(power, 0, 31).astype(jnp.uint32)
    too_large = (significand >> (31 - left)) > 0
    larger = jnp.where(too_large, jnp.uint32(1 << 31), significand << left)

    right = jnp.clip(-power, 1, 31).astype(jnp.uint32)
    quotient = significand >> right
    rest = significand & ((jnp.uint32(1) << right) - 1)
    half = jnp.uint32(1) << (right - 1)
    round_up = (rest > half) | ((rest == half) & (quotient & 1 == 1))
    return jnp.where(power >= 0, larger, quotient + round_up.astype(jnp.uint32))
