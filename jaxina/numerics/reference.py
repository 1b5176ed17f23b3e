"""The specification of block fixed point, in NumPy.

n workers hold float32 arrays, cut into blocks of k elements. L = ceil(log2 n). For each block:

* Exponent: the byte ``b = clamp(m + 126, 0, 254)``, where m is the smallest integer with ``max|x| < 2^m``. It is 255 if
  the block holds a NaN or an infinity. The aggregator takes the maximum over the workers.
* Scale: ``S = 31 - L - m = 157 - L - b``.
* Quantize: ``q = clamp(rint(x 2^S), -Q, Q)`` with ``Q = floor((2^31 - 1) / n)``. rint rounds to nearest, ties to even.
* Sum: int32 addition. It cannot overflow, and its result does not depend on the order.
* Dequantize: ``y = float32(sum q) 2^-S``. It is off the exact sum by at most `error_bound` plus half an ulp of y.

Narrow words have w = 8 or 16 bits, and use all of them: no room is left for the sum. The n arrays are those of P
workers (processes) with D devices each. For each block, with b as above:

* Scale: ``S = w - 1 - m = 125 + w - b``, and ``Q = 2^(w-1) - 1``.
* Quantize: as above, or rounded stochastically.
* Within a worker: ``p = R(sum of its devices' q, L_D)``, ``L_D = ceil(log2 D)``. So p = q where D is 1.
* Aggregator: ``r = R(sum of the workers' p, L_P)``, ``L_P = ceil(log2 P)``. Sums are int32 and exact, so their order
  does not matter; r fits w bits again, since ``|sum| <= P Q <= 2^L_P Q``.
* R: `round_shift`, a division by a power of two, rounded to nearest with ties to even, or stochastically.
* Dequantize: ``y = float32(r) 2^-(S - L_D - L_P)``.

Halves go to the even number, because rounding all of them up would add a quarter of a unit on average to each sum of
two words, in each step of a training. Random numbers are those of `jaxina.numerics.random_numbers`. An element's index
among them is its place in its tensor, plus k for each narrow block before that tensor in the collective.

In a block with non-finite values, the exponent is that of the finite values, and the others count as zero. The result
is then replaced where any worker has a non-finite value, by what IEEE-754 addition gives.

Source: SwitchML (Sapio et al., NSDI 2021), section 4.6 and appendix E, but with a power of two as the scale. So scaling
is exact, and integers and short dyadic fractions sum exactly. This module computes in float64, where every step before
a rounding is exact.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from jaxina.config import DEFAULT_BLOCK_SIZE
from jaxina.numerics.blocks import (
    NON_FINITE_EXPONENT,
    block_count,
    check_exponent_count,
    head_room,
    quantized_limit,
)
from jaxina.numerics.random_numbers import random_words

S = TypeVar("S", bound=np.generic)


def block_exponents(
    x: npt.ArrayLike, block_size: int = DEFAULT_BLOCK_SIZE, *, finite_only: bool = False
) -> npt.NDArray[np.uint8]:
    """Computes the exponent byte of each block.

    Args:
      x: float32 with N elements, of any shape, read in row-major order.
      block_size: k.
      finite_only: leave non-finite values out; otherwise their block's byte is 255.

    Returns:
      uint8[ceil(N / k)]: ``clamp(m + 126, 0, 254)``, where m is the smallest integer with ``max|x| < 2^m``; 0 for a
      block of zeros; 255 for a block with a NaN or an infinity.

    Raises:
      TypeError: `x` is not float32.
      ValueError: `block_size` is less than 1.

    Example:
      >>> import numpy as np
      >>> from jaxina import numerics
      >>> numerics.block_exponents(np.array([0.75, 0, 3, 0], np.float32), block_size=2)
      array([126, 128], dtype=uint8)
    """
    flat = as_flat_float32(x)
    magnitudes = _in_blocks(np.abs(_finite_values(flat)), block_size).max(axis=1)
    _, m = np.frexp(magnitudes)
    exponents = np.where(magnitudes == 0, 0, np.clip(m + 126, 0, 254))
    if not finite_only:
        has_non_finite = _in_blocks(~np.isfinite(flat), block_size).any(axis=1)
        exponents = np.where(has_non_finite, NON_FINITE_EXPONENT, exponents)
    return exponents.astype(np.uint8)


def scale_exponent(exponents: npt.ArrayLike, workers: int, bits: int = 32) -> npt.NDArray[np.int32]:
    """Computes the scale exponent of each block: S = 157 - ceil(log2 n) - b, or S = 125 + w - b for narrow words.

    Args:
      exponents: uint8, one byte b per block.
      workers: n. Narrow words leave no room for a sum, so their scale does not depend on it.
      bits: w, 8, 16 or 32.

    Returns:
      int32, of the shape of `exponents`.

    Raises:
      ValueError: a byte is 255, which has no scale, or n or w is out of range.
    """
    room = head_room(workers, bits)
    b = np.asarray(exponents).astype(np.int32)
    if np.any(b == NON_FINITE_EXPONENT):
        raise ValueError("exponent 255 (NaN or Inf) has no scale: use finite_only=True")
    return (125 + bits - room - b).astype(np.int32)


def quantize(
    x: npt.ArrayLike,
    exponents: npt.ArrayLike,
    workers: int,
    block_size: int = DEFAULT_BLOCK_SIZE,
    *,
    bits: int = 32,
    seed: int | None = None,
    first_block: int = 0,
) -> npt.NDArray[np.int32]:
    """Computes ``q = clamp(rint(x 2^S), -Q, Q)``. NaN and infinities give 0.

    Args:
      x: float32 with N elements, of any shape, read in row-major order.
      exponents: uint8[ceil(N / k)], the largest byte of all workers for each block.
      workers: n.
      block_size: k.
      bits: w, 8, 16 or 32.
      seed: None rounds to nearest. A seed (64 bits) rounds stochastically: ``|x 2^S|`` is cut to an integer, and 1 is
        added where the element's number of `random_words` is below the cut-off fraction times 2^32 (also cut to an
        integer).
      first_block: how many blocks of the collective come before `x`: element i has the random number
        k `first_block` + i.

    Returns:
      int32[N]; every word fits w bits.

    Raises:
      TypeError: `x` is not float32.
      ValueError: the number of exponents is not that of the blocks, one of them is 255, or n or w is out of range.
    """
    flat = as_flat_float32(x)
    power = per_element(scale_exponent(exponents, workers, bits), flat.size, block_size)
    limit = quantized_limit(workers, bits)
    scaled = np.ldexp(_finite_values(flat), power)
    if seed is None:
        rounded = np.rint(scaled)
    else:
        whole = np.floor(np.abs(scaled))
        random = random_words(seed, flat.size, block_size * first_block)
        up = random < np.floor((np.abs(scaled) - whole) * 2.0**32)
        rounded = np.copysign(whole + up, scaled)
    return np.clip(rounded, -limit, limit).astype(np.int32)


def round_shift(
    words: npt.ArrayLike, shift: int, random: npt.NDArray[np.uint32] | None = None
) -> npt.NDArray[np.int32]:
    """Computes R(v, s), the integer v divided by 2^s and rounded.

    To nearest, ties to even: ``(v + 2^(s-1) - 1 + ((v >> s) & 1)) >> s``. With random numbers:
    ``(v + (random >> (32 - s))) >> s``, whose expectation is ``v / 2^s``. R(v, 0) = v.

    Args:
      words: int32, v. No sum above may leave int32's range; sums of narrow words are below 2^26.
      shift: s, from 0 to 30.
      random: None rounds to nearest. uint32, of the shape of `words`, rounds stochastically.

    Returns:
      int32, of the shape of `words`.

    Example:
      >>> from jaxina import numerics
      >>> numerics.round_shift([-3, -2, -1, 0, 1, 2, 3, 5], 1)
      array([-2, -1,  0,  0,  0,  1,  2,  2], dtype=int32)
    """
    v = np.asarray(words, np.int32)
    if shift == 0:
        return v
    s = np.int32(shift)
    if random is not None:
        return (v + (random >> np.uint32(32 - shift)).astype(np.int32)) >> s
    return (v + np.int32(2 ** (shift - 1) - 1) + ((v >> s) & np.int32(1))) >> s


def dequantize(
    words: npt.ArrayLike,
    exponents: npt.ArrayLike,
    workers: int,
    block_size: int = DEFAULT_BLOCK_SIZE,
    *,
    bits: int = 32,
    shift: int = 0,
) -> npt.NDArray[np.float32]:
    """Computes ``y = float32(words) 2^-(S - shift)``. It overflows to infinity, as float32 does.

    Args:
      words: int32[N], the sum over all workers.
      exponents: uint8[ceil(N / k)], the bytes that the words were quantized with.
      workers: n.
      block_size: k.
      bits: w, as given to `quantize`.
      shift: by how many bits `round_shift` has shifted the words, in all: L_D + L_P for the result of narrow words.

    Returns:
      float32[N].

    Raises:
      ValueError: the number of exponents is not that of the blocks, one of them is 255, or n or w is out of range.
    """
    flat = np.asarray(words, dtype=np.int32).reshape(-1)
    power = per_element(scale_exponent(exponents, workers, bits), flat.size, block_size) - np.int32(shift)
    rounded = flat.astype(np.float32).astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(rounded, -power).astype(np.float32)


def as_flat_float32(x: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Flattens `x` in row-major order.

    Raises:
      TypeError: `x` is not float32.
    """
    array = np.asarray(x)
    if array.dtype != np.float32:
        raise TypeError(f"block fixed point carries float32, not {array.dtype}")
    return array.reshape(-1)


def _finite_values(flat: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Converts to float64, exactly. NaN and infinities become 0."""
    return np.where(np.isfinite(flat), flat, np.float32(0)).astype(np.float64)


def _in_blocks(flat: npt.NDArray[S], block_size: int) -> npt.NDArray[S]:
    """Cuts into [blocks, block_size]. The last block is filled up with zeros."""
    blocks = block_count(flat.size, block_size)
    padded = np.zeros(blocks * block_size, flat.dtype)
    padded[: flat.size] = flat
    return padded.reshape(blocks, block_size)


def per_element(per_block: npt.NDArray[S], elements: int, block_size: int) -> npt.NDArray[S]:
    """Repeats each block's value for each of its elements: [blocks] -> [elements].

    Raises:
      ValueError: the number of values is not that of the blocks.
    """
    check_exponent_count(per_block.size, elements, block_size)
    return np.repeat(per_block.reshape(-1), block_size)[:elements]
