"""The specification of block fixed point, in NumPy.

n workers hold arrays of float32 cut into blocks of k elements; L = ceil(log2 n). For one block,
over all workers:

* exponent byte ``b = clamp(m + 126, 0, 254)``, where m is the smallest integer with
  ``max|x| < 2^m``; 255 if the block holds a NaN or an infinity. The aggregator takes the maximum
  over the workers.
* scale ``S = 31 - L - m = 157 - L - b``
* quantize ``q = clamp(rint(x 2^S), -Q, Q)``, ``Q = floor((2^31 - 1) / n)``, rint to nearest with
  ties to even
* sum in int32, which no order of addition changes and which cannot overflow
* dequantize ``y = float32(sum q) 2^-S``; its error is that of `error_bound` and half an ulp of y

Words are int32 unless `word_bits` makes them narrower: with w bits, ``S = w - 1 - L - m`` and
``Q = floor((2^(w-1) - 1) / n)``. They may be rounded stochastically instead, see `random_words`.

A block with non-finite values is summed with the exponent of its finite values, the others counting
as zero; the non-finite elements are then what IEEE-754 addition gives.

The scheme is that of SwitchML (Sapio et al., NSDI 2021, section 4.6 and appendix E) with a power of
two for a scale: scaling is exact, so integers and short dyadic fractions sum exactly. Arithmetic
here is in float64, in which every step before a rounding is exact.
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
    """The exponent byte of each block.

    Args:
      x: float32[N], of any shape, read in row-major order.
      block_size: k.
      finite_only: leave non-finite values out, instead of answering 255 for their block.

    Returns:
      uint8[ceil(N / k)]: ``clamp(m + 126, 0, 254)`` with m the smallest integer such that
      ``max|x| < 2^m``; 0 for a block of zeros; 255 for a block with a NaN or an infinity.
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
    """S = 125 + w - ceil(log2 n) - b for each block.

    Raises:
      ValueError: for the exponent byte 255, which has no scale.
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
    """``q = clamp(rint(x 2^S), -Q, Q)``; NaN and infinities give 0.

    Args:
      x: float32[N], of any shape, read in row-major order.
      exponents: uint8[ceil(N / k)], the largest of all workers for each block.
      workers: n.
      block_size: k.
      word_bits: w, 8, 16 or 32.
      seed: rounds stochastically instead: |x 2^S| is cut to an integer, plus 1 where element i's
        number of `random_words` is below the fraction times 2^32 (itself cut to an integer).

    Returns:
      int32[N], one-dimensional; every word fits w bits.
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
    """The random numbers that element 0, 1, ... of a tensor is rounded with: the upper halves of the
    first numbers of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), started at `seed` (64 bits)."""
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
    """``y = float32(words) 2^-S``, overflowing to infinity as float32 does.

    Args:
      words: int32[N], the sum over all workers.
      exponents: uint8[ceil(N / k)], the bytes that the words were quantized with.
      workers: n.
      block_size: k.
      word_bits: w, that of `quantize`.

    Returns:
      float32[N], one-dimensional.
    """
    flat = np.asarray(words, dtype=np.int32).reshape(-1)
    power = per_element(scale_exponent(exponents, workers, word_bits), flat.size, block_size)
    rounded = flat.astype(np.float32).astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(rounded, -power).astype(np.float32)


def non_finite_sum(arrays: Sequence[npt.ArrayLike]) -> npt.NDArray[np.float32]:
    """What IEEE-754 addition makes of the non-finite values of each element, flat: NaN, +Inf or
    -Inf; 0 where all are finite. Any NaN, or infinities of both signs, give NaN."""
    flat = [as_flat_float32(array) for array in arrays]
    plus = np.any([array == np.inf for array in flat], axis=0)
    minus = np.any([array == -np.inf for array in flat], axis=0)
    nan = np.any([np.isnan(array) for array in flat], axis=0) | (plus & minus)
    return np.select([nan, plus, minus], [np.nan, np.inf, -np.inf], 0.0).astype(np.float32)


def all_reduce_reference(arrays: Sequence[npt.ArrayLike], block_size: int = DEFAULT_BLOCK_SIZE) -> npt.NDArray[Any]:
    """The sum over workers that every transport must give, bit for bit.

    Args:
      arrays: one array per worker, all of one shape and of one dtype: float32 (block fixed point),
        int32 or uint32 (exact modulo 2^32).
      block_size: k; blocks run over the array in row-major order.

    Returns:
      An array of that shape and dtype.

    Raises:
      ValueError: if shapes or dtypes differ, or there are no or too many arrays.
      TypeError: for another dtype.
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
    """How far the exact value of the summed words may be from the exact sum of the workers' finite
    values, per block.

    Each worker rounds by at most half a word: ``n 2^(-S-1)``. The clamp adds to that only for
    n = 512 and 1024, where ``Q = 2^(31-L) - 1`` is further than half a word from values just under
    ``2^m``: such a word may be off by ``1 - 2^(7-L)``. Rounding the result to float32 adds at most
    half an ulp of it.
    """
    log2_n = log2_workers(workers)
    largest_below = 2.0 ** (31 - log2_n) * (1 - 2.0**-24)  # the largest float32 under 2^m, scaled
    per_word = max(0.5, largest_below - quantized_limit(workers))
    return workers * per_word * np.ldexp(1.0, -scale_exponent(exponents, workers))


def as_flat_float32(x: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """x in row-major order; TypeError unless it is float32."""
    array = np.asarray(x)
    if array.dtype != np.float32:
        raise TypeError(f"block fixed point carries float32, not {array.dtype}")
    return array.reshape(-1)


def _finite_values(flat: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """NaN and infinities become 0; the rest is exact."""
    return np.where(np.isfinite(flat), flat, np.float32(0)).astype(np.float64)


def _in_blocks(flat: npt.NDArray[S], block_size: int) -> npt.NDArray[S]:
    """[blocks, block_size], the last block filled up with zeros."""
    blocks = block_count(flat.size, block_size)
    padded = np.zeros(blocks * block_size, flat.dtype)
    padded[: flat.size] = flat
    return padded.reshape(blocks, block_size)


def per_element(per_block: npt.NDArray[S], elements: int, block_size: int) -> npt.NDArray[S]:
    """[blocks] -> [elements]: each block's value, once for each of its elements."""
    check_exponent_count(per_block.size, elements, block_size)
    return np.repeat(per_block.reshape(-1), block_size)[:elements]
