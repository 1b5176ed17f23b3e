"""Block fixed point in jax.numpy. It can be jitted, and gives the same bits as `jaxina.numerics.reference`.

XLA's CPU code flushes subnormal floats to zero. Scaling by a power of two only changes the exponent, so this module
does it on the bits, in 32-bit integers. The only float operation is the conversion of an int32, whose result is never
subnormal.

Values cannot be checked under `jax.jit`. The exponent byte 255 has no scale; callers must not pass it to functions that
scale.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from jaxina.config import DEFAULT_BLOCK_SIZE
from jaxina.numerics.blocks import (
    NON_FINITE_EXPONENT,
    block_count,
    check_exponent_count,
    head_room,
    quantized_limit,
    shifts,
)
from jaxina.numerics.jnp_random import random64, random_words, seed_down, seed_up, seed_within

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


def quantize(
    x: jax.Array,
    exponents: jax.Array,
    workers: int,
    block_size: int = DEFAULT_BLOCK_SIZE,
    *,
    bits: int = 32,
    seed: int | jax.Array | None = None,
    first_block: int = 0,
) -> jax.Array:
    """As `jaxina.numerics.quantize`: float32[N], uint8[ceil(N / k)] -> int32[N].

    For x = significand 2^(e - 150), the word is ``significand 2^(e - 150 + S)``, rounded and clamped.

    Args:
      x: float32, of any shape, read in row-major order.
      exponents: the largest byte of all workers for each block, none of them 255.
      workers: n. Static.
      block_size: k. Static.
      bits: w, 8, 16 or 32. Static.
      seed: None rounds to nearest. A Python integer of 64 bits, or uint32[2], rounds stochastically.
      first_block: how many blocks of the collective come before `x`. Static.

    Raises:
      TypeError: `x` is not float32.
      ValueError: the number of exponents is not that of the blocks, or n or w is out of range.
    """
    pattern = _bits(x)
    power = _scale_exponent(exponents, workers, pattern.size, block_size, bits)
    shift = jnp.maximum(_exponent_field(pattern), 1) - 150 + power
    if seed is None:
        rounded = _shifted(_significand(pattern), shift)
    else:
        random = random_words(seed, pattern.size, block_size * first_block)
        rounded = _shifted_at_random(_significand(pattern), shift, random)
    magnitude = jnp.minimum(rounded, jnp.uint32(quantized_limit(workers, bits))).astype(jnp.int32)
    word = jnp.where(pattern > _MAGNITUDE, -magnitude, magnitude)
    return jnp.where(_finite(pattern), word, 0)


def spread(per_block: jax.Array, block_size: int, elements: int) -> jax.Array:
    """Gives each element the value of its block: [ceil(N / k)] -> [N]. `elements` is N. Static."""
    # `jnp.repeat` with a length computes and gathers indices, which takes 20 times as long as all else here.
    return jnp.broadcast_to(per_block[:, None], (per_block.size, block_size)).reshape(-1)[:elements]


def round_shift(words: jax.Array, shift: int, random: jax.Array | None = None) -> jax.Array:
    """As `jaxina.numerics.round_shift`: int32[N], and uint32[N] or None, -> int32[N]. `shift` is static."""
    v = words.astype(jnp.int32)
    if shift == 0:
        return v
    if random is not None:
        return (v + (random >> (32 - shift)).astype(jnp.int32)) >> shift
    return (v + (2 ** (shift - 1) - 1) + ((v >> shift) & 1)) >> shift


def dequantize(
    words: jax.Array,
    exponents: jax.Array,
    workers: int,
    block_size: int = DEFAULT_BLOCK_SIZE,
    *,
    bits: int = 32,
    shift: int | jax.Array = 0,
) -> jax.Array:
    """As `jaxina.numerics.dequantize`: int32[N], uint8[ceil(N / k)] -> float32[N].

    Args:
      words: the sum over all workers.
      exponents: the bytes that the words were quantized with, none of them 255.
      workers: n. Static.
      block_size: k. Static.
      bits: w, 8, 16 or 32. Static.
      shift: by how many bits `round_shift` has shifted the words, in all; int32[N] if not all alike (studies).

    Raises:
      ValueError: the number of exponents is not that of the blocks, or n or w is out of range.
    """
    flat = words.astype(jnp.int32).reshape(-1)
    power = _scale_exponent(exponents, workers, flat.size, block_size, bits) - shift
    pattern = _bits(flat.astype(jnp.float32))
    field = _exponent_field(pattern) - power
    significand = _significand(pattern)
    normal = (field.astype(jnp.uint32) << _FRACTION_BITS) | (pattern & _FRACTION)
    # If rounding carries out of the fraction, the bits are those of the smallest normal number, which is correct.
    subnormal = _shifted(significand, field - 1)
    magnitude = jnp.where(field >= 255, jnp.uint32(_INFINITY), jnp.where(field > 0, normal, subnormal))
    magnitude = jnp.where(flat == 0, jnp.uint32(0), magnitude)
    return _as_float(magnitude | (pattern & ~jnp.uint32(_MAGNITUDE)))


def non_finite_sum(arrays: Sequence[jax.Array]) -> jax.Array:
    """As `jaxina.numerics.non_finite_sum`: one float32[N] per worker -> float32[N] of NaN, +Inf, -Inf or 0."""
    bits = jnp.stack([_bits(array) for array in arrays])
    plus = (bits == _INFINITY).any(axis=0)
    minus = (bits == jnp.uint32(_MINUS_INFINITY)).any(axis=0)
    nan = ((bits & _MAGNITUDE) > _INFINITY).any(axis=0) | (plus & minus)
    kinds = [jnp.uint32(_QUIET_NAN), jnp.uint32(_INFINITY), jnp.uint32(_MINUS_INFINITY)]
    return _as_float(jnp.select([nan, plus, minus], kinds, jnp.uint32(0)))


def all_reduce_reference(
    arrays: Sequence[jax.Array],
    block_size: int = DEFAULT_BLOCK_SIZE,
    *,
    bits: int = 32,
    devices_per_worker: int = 1,
    seed: int | jax.Array | None = None,
    collective: int | jax.Array = 0,
    first_block: int = 0,
) -> jax.Array:
    """As `jaxina.numerics.all_reduce_reference`, for float32 only: one array per device -> their sum.

    Args:
      arrays: one float32 array per device, all of one shape.
      block_size: k. Static.
      bits: w, 8, 16 or 32. Static.
      devices_per_worker: D. Static.
      seed: of the user, for narrow words: None, a Python integer of 64 bits, or uint32[2], the upper half first.
      collective: the collective's number; int32[] if traced.
      first_block: how many narrow blocks of this collective come before the array's. Static.

    Raises:
      TypeError: an array is not float32.
      ValueError: there are too many arrays, or D does not divide their number.
    """
    n, size, start = len(arrays), arrays[0].size, block_size * first_block
    within, down = shifts(n, devices_per_worker, bits)
    s1 = None if seed is None or bits == 32 else random64(seed, collective)
    exponents = jnp.stack([block_exponents(array, block_size, finite_only=True) for array in arrays]).max(axis=0)
    total = jnp.zeros(size, jnp.int32)
    for worker in range(n // devices_per_worker):
        words = jnp.zeros(size, jnp.int32)
        for rank in range(worker * devices_per_worker, (worker + 1) * devices_per_worker):
            up = None if s1 is None else seed_up(s1, rank)
            words += quantize(arrays[rank], exponents, n, block_size, bits=bits, seed=up, first_block=first_block)
        random = None if s1 is None else random_words(seed_within(s1, worker), size, start)
        total += round_shift(words, within, random)
    result = round_shift(total, down, None if s1 is None else random_words(seed_down(s1), size, start))
    y = _bits(dequantize(result, exponents, n, block_size, bits=bits, shift=within + down))
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


def _scale_exponent(exponents: jax.Array, workers: int, elements: int, block_size: int, bits: int) -> jax.Array:
    check_exponent_count(exponents.size, elements, block_size)
    per_block = 125 + bits - head_room(workers, bits) - exponents.astype(jnp.int32).reshape(-1)
    return spread(per_block, block_size, elements)


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


def _shifted_at_random(significand: jax.Array, power: jax.Array, random: jax.Array) -> jax.Array:
    """As `_shifted`, but cut to an integer, plus 1 where the number is below the cut-off fraction times 2^32."""
    right = jnp.clip(-power, 1, 31).astype(jnp.uint32)
    far = jnp.clip(-power - 32, 0, 31).astype(jnp.uint32)  # beyond 32 bits, the whole significand is fraction
    rest = significand & ((jnp.uint32(1) << right) - 1)
    fraction = jnp.where(power > -32, rest << (32 - right), significand >> far)
    cut = jnp.where(power > -32, significand >> right, 0) + (random < fraction).astype(jnp.uint32)
    return jnp.where(power >= 0, _shifted(significand, power), cut)
