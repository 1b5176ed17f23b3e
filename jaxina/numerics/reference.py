"""The specification of block fixed point, in NumPy.

n workers hold float32 arrays, cut into blocks of k elements. L = ceil(log2 n). For each block:

* Exponent: the byte ``b = clamp(m + 126, 0, 254)``, where m is the smallest integer with ``max|x| < 2^m``. It is 255 if
  the block holds a NaN or an infinity. The aggregator takes the maximum over the workers.
* Scale: ``S = 31 - L - m = 157 - L - b``.
* Quantize: ``q = clamp(rint(x 2^S), -Q, Q)`` with ``Q = floor((2^31 - 1) / n)``. rint rounds to nearest, ties to even.
* Sum: int32 addition. It cannot overflow, and its result does not depend on the order.
* Dequantize: ``y = float32(sum q) 2^-S``. It is off the exact sum by at most `error_bound` plus half an ulp of y.

Words are int32 unless `word_bits` makes them narrower. With w bits, ``S = w - 1 - L - m`` and
``Q = floor((2^(w-1) - 1) / n)``. Rounding may be stochastic instead, see `random_words`.

In a block with non-finite values, the exponent is that of the finite values, and the others count as zero. The result
is then replaced where any worker has a non-finite value, by what IEEE-754 addition gives.

Source: SwitchML (Sapio et al., NSDI 2021), section 4.6 and appendix E, but with a power of two as the scale. So scaling
is exact, and integers and short dyadic fractions sum exactly. This module computes in float64, where every step before
a rounding is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from jaxina._native import MAX_WORKERS
from jaxina.numerics.blocks import (
    DEFAULT_BLOCK_SIZE,
    NON_FINITE_EXPONENT,
    block_count,
    check_exponent_count,
    log2_workers,
    quantized_limit,
)

__all__ = [
    "DEFAULT_BLOCK_SIZE",
    "MAX_WORKERS",
    "NON_FINITE_EXPONENT",
    "all_reduce_reference",
    "block_exponents",
    "dequantize",
    "error_bound",
    "non_finite_sum",
    "quantize",
    "quantized_limit",
    "random_words",
    "scale_exponent",
]

S = TypeVar("S", bound=np.generic)

_INTEGERS = (np.dtype(np.int32), np.dtype(np.uint32))


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


def scale_exponent(exponents: npt.ArrayLike, workers: int, word_bits: int = 32) -> npt.NDArray[np.int32]:
    """Computes the scale exponent S = 125 + w - ceil(log2 n) - b of each block.

    Args:
      exponents: uint8, one byte b per block.
      workers: n.
      word_bits: w, 8, 16 or 32.

    Returns:
      int32, of the shape of `exponents`.

    Raises:
      ValueError: a byte is 255, which has no scale, or n is out of range.
    """
    b = np.asarray(exponents).astype(np.int32)
    if np.any(b == NON_FINITE_EXPONENT):
        raise ValueError("exponent 255 (NaN or Inf) has no scale: use finite_only=True")
    return (125 + word_bits - log2_workers(workers) - b).astype(np.int32)


def quantize(
    x: npt.ArrayLike,
    exponents: npt.ArrayLike,
    workers: int,
    block_size: int = DEFAULT_BLOCK_SIZE,
    *,
    word_bits: int = 32,
    seed: int | None = None,
) -> npt.NDArray[np.int32]:
    """Computes ``q = clamp(rint(x 2^S), -Q, Q)``. NaN and infinities give 0.

    Args:
      x: float32 with N elements, of any shape, read in row-major order.
      exponents: uint8[ceil(N / k)], the largest byte of all workers for each block.
      workers: n.
      block_size: k.
      word_bits: w, 8, 16 or 32.
      seed: None rounds to nearest. A seed (64 bits) rounds stochastically: ``|x 2^S|`` is cut to an integer, and 1 is
        added where element i's number of `random_words` is below the cut-off fraction times 2^32 (also cut to an
        integer).

    Returns:
      int32[N]; every word fits w bits.

    Raises:
      TypeError: `x` is not float32.
      ValueError: the number of exponents is not that of the blocks, one of them is 255, or n or w is out of range.
    """
    flat = as_flat_float32(x)
    power = per_element(scale_exponent(exponents, workers, word_bits), flat.size, block_size)
    limit = quantized_limit(workers, word_bits)
    scaled = np.ldexp(_finite_values(flat), power)
    if seed is None:
        rounded = np.rint(scaled)
    else:
        whole = np.floor(np.abs(scaled))
        up = random_words(seed, flat.size) < np.floor((np.abs(scaled) - whole) * 2.0**32)
        rounded = np.copysign(whole + up, scaled)
    return np.clip(rounded, -limit, limit).astype(np.int32)


def random_words(seed: int, count: int) -> npt.NDArray[np.uint32]:
    """Makes the random numbers for stochastic rounding, one for each element of a tensor.

    They are the upper halves of the first numbers of SplitMix64, started at `seed`. So each depends on the seed and the
    element's index alone.

    Source: Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014.

    Args:
      seed: 64 bits.
      count: how many numbers to make.

    Returns:
      uint32[count].
    """
    z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(32)).astype(np.uint32)


def dequantize(
    words: npt.ArrayLike,
    exponents: npt.ArrayLike,
    workers: int,
    block_size: int = DEFAULT_BLOCK_SIZE,
    *,
    word_bits: int = 32,
) -> npt.NDArray[np.float32]:
    """Computes ``y = float32(words) 2^-S``. It overflows to infinity, as float32 does.

    Args:
      words: int32[N], the sum over all workers.
      exponents: uint8[ceil(N / k)], the bytes that the words were quantized with.
      workers: n.
      block_size: k.
      word_bits: w, as given to `quantize`.

    Returns:
      float32[N].

    Raises:
      ValueError: the number of exponents is not that of the blocks, one of them is 255, or n is out of range.
    """
    flat = np.asarray(words, dtype=np.int32).reshape(-1)
    power = per_element(scale_exponent(exponents, workers, word_bits), flat.size, block_size)
    rounded = flat.astype(np.float32).astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(rounded, -power).astype(np.float32)


def non_finite_sum(arrays: Sequence[npt.ArrayLike]) -> npt.NDArray[np.float32]:
    """Adds the non-finite values of each element as IEEE-754 does. A NaN, or infinities of both signs, give NaN.

    Args:
      arrays: one float32 array of N elements per worker.

    Returns:
      float32[N]: NaN, +Inf or -Inf; 0 where all workers' values are finite.

    Raises:
      TypeError: an array is not float32.
    """
    flat = [as_flat_float32(array) for array in arrays]
    plus = np.any([array == np.inf for array in flat], axis=0)
    minus = np.any([array == -np.inf for array in flat], axis=0)
    nan = np.any([np.isnan(array) for array in flat], axis=0) | (plus & minus)
    return np.select([nan, plus, minus], [np.nan, np.inf, -np.inf], 0.0).astype(np.float32)


def all_reduce_reference(arrays: Sequence[npt.ArrayLike], block_size: int = DEFAULT_BLOCK_SIZE) -> npt.NDArray[Any]:
    """Computes the sum over workers. Every transport must give the same, bit for bit.

    Args:
      arrays: one array per worker, all of one shape and one dtype: float32 (block fixed point), int32 or uint32 (exact
        modulo 2^32).
      block_size: k. Blocks run over the array in row-major order.

    Returns:
      The sum, of that shape and dtype.

    Raises:
      ValueError: shapes or dtypes differ, or there are no or too many arrays.
      TypeError: the arrays have another dtype.

    Example:
      >>> import numpy as np
      >>> from jaxina import numerics
      >>> numerics.all_reduce_reference([np.float32([1, 2.5, np.inf]), np.float32([3, 0.25, -1])])
      array([4.  , 2.75,  inf], dtype=float32)
    """
    workers = [np.asarray(array) for array in arrays]
    log2_workers(len(workers))
    first = workers[0]
    if any(array.shape != first.shape or array.dtype != first.dtype for array in workers):
        raise ValueError("all workers must have the same shape and dtype")
    if first.dtype in _INTEGERS:
        flat = [array.reshape(-1).view(np.uint32) for array in workers]
        return np.add.reduce(flat, dtype=np.uint32).view(first.dtype).reshape(first.shape)

    exponents = np.max([block_exponents(array, block_size, finite_only=True) for array in workers], axis=0)
    words = np.zeros(first.size, np.int32)
    for array in workers:
        words += quantize(array, exponents, len(workers), block_size)
    y = dequantize(words, exponents, len(workers), block_size)
    special = non_finite_sum(workers)
    return np.where(np.isfinite(special), y, special).reshape(first.shape)


def error_bound(exponents: npt.ArrayLike, workers: int) -> npt.NDArray[np.float64]:
    """Computes the largest error of each block's sum before it is rounded to float32.

    It bounds the distance between the exact value of the summed words, ``sum(q) 2^-S``, and the exact sum of the
    workers' finite values. Each worker rounds by at most half a word, which makes ``n 2^(-S-1)``. The clamp adds to
    that only for n = 512 and 1024: there ``Q = 2^(31-L) - 1`` is further than half a word from values just under
    ``2^m``, and such a word may be off by ``1 - 2^(7-L)``. Rounding the result to float32 adds at most half an ulp of
    the result.

    Args:
      exponents: uint8, the largest byte of all workers for each block.
      workers: n.

    Returns:
      float64, of the shape of `exponents`.

    Raises:
      ValueError: an exponent is 255, or n is out of range.
    """
    log2_n = log2_workers(workers)
    largest_below = 2.0 ** (31 - log2_n) * (1 - 2.0**-24)  # the largest float32 under 2^m, scaled
    per_word = max(0.5, largest_below - quantized_limit(workers))
    return workers * per_word * np.ldexp(1.0, -scale_exponent(exponents, workers))


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
