"""Sums over workers in block fixed point, in NumPy, and how far they may be off. See `jaxina.numerics.reference`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxina.config import DEFAULT_BLOCK_SIZE
from jaxina.numerics.blocks import head_room, quantized_limit, shifts
from jaxina.numerics.random_numbers import Seeds, random_words
from jaxina.numerics.reference import (
    as_flat_float32,
    block_exponents,
    dequantize,
    quantize,
    round_shift,
    scale_exponent,
)

_INTEGERS = (np.dtype(np.int32), np.dtype(np.uint32))


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


def all_reduce_reference(
    arrays: Sequence[npt.ArrayLike],
    block_size: int = DEFAULT_BLOCK_SIZE,
    *,
    bits: int = 32,
    devices_per_worker: int = 1,
    seed: int | None = None,
    collective: int = 0,
    first_block: int = 0,
) -> npt.NDArray[Any]:
    """Computes the sum over workers. Every transport must give the same, bit for bit.

    Args:
      arrays: one array per device, all of one shape and one dtype: float32 (block fixed point), int32 or uint32 (exact
        modulo 2^32, whatever `bits` is). The device of place j in worker p has the array p D + j.
      block_size: k. Blocks run over the array in row-major order.
      bits: w, 8, 16 or 32.
      devices_per_worker: D. It matters to narrow words only.
      seed: of the user, 64 bits: narrow words are rounded stochastically. None rounds to nearest, and so do words of 32
        bits whatever the seed is.
      collective: the number of the collective in its job, from 0. It matters to stochastic rounding only.
      first_block: how many narrow blocks of this collective come before the array's. As `collective`.

    Returns:
      The sum, of that shape and dtype.

    Raises:
      ValueError: shapes or dtypes differ, there are no or too many arrays, D does not divide their number, or w is not
        8, 16 or 32.
      TypeError: the arrays have another dtype.

    Example:
      >>> import numpy as np
      >>> from jaxina import numerics
      >>> numerics.all_reduce_reference([np.float32([1, 2.5, np.inf]), np.float32([3, 0.25, -1])])
      array([4.  , 2.75,  inf], dtype=float32)
      >>> numerics.all_reduce_reference([np.float32([1, 2.5, 3.3]), np.float32([3, 0.25, -1])], bits=8)
      array([4.    , 2.75  , 2.3125], dtype=float32)
    """
    devices = [np.asarray(array) for array in arrays]
    within, down = shifts(len(devices), devices_per_worker, bits)
    first = devices[0]
    if any(array.shape != first.shape or array.dtype != first.dtype for array in devices):
        raise ValueError("all workers must have the same shape and dtype")
    if first.dtype in _INTEGERS:
        flat = [array.reshape(-1).view(np.uint32) for array in devices]
        return np.add.reduce(flat, dtype=np.uint32).view(first.dtype).reshape(first.shape)

    n, start = len(devices), block_size * first_block
    seeds = None if seed is None or bits == 32 else Seeds(seed, collective)
    exponents = np.max([block_exponents(array, block_size, finite_only=True) for array in devices], axis=0)
    total = np.zeros(first.size, np.int32)
    for worker in range(n // devices_per_worker):
        words = np.zeros(first.size, np.int32)
        for rank in range(worker * devices_per_worker, (worker + 1) * devices_per_worker):
            up = None if seeds is None else seeds.up(rank)
            words += quantize(devices[rank], exponents, n, block_size, bits=bits, seed=up, first_block=first_block)
        random = None if seeds is None else random_words(seeds.within(worker), first.size, start)
        total += round_shift(words, within, random)
    result = round_shift(total, down, None if seeds is None else random_words(seeds.down, first.size, start))
    y = dequantize(result, exponents, n, block_size, bits=bits, shift=within + down)
    special = non_finite_sum(devices)
    return np.where(np.isfinite(special), y, special).reshape(first.shape)


def error_bound(
    exponents: npt.ArrayLike, workers: int, *, bits: int = 32, devices_per_worker: int = 1, stochastic: bool = False
) -> npt.NDArray[np.float64]:
    """Computes the largest error of each block's sum before it is rounded to float32.

    It bounds the distance between the exact value of the result's words and the exact sum of the workers' finite
    values. Rounding the result to float32 adds at most half an ulp of the result. In units of ``2^-S``:

    * Up, each word is off by at most 1/2 (below 1 if rounded stochastically), or by ``2^(w-1-L) (1 - 2^-24) - Q`` where
      a value just under ``2^m`` is clamped, if that is more: it is ``1 - 2^(w-25)`` for narrow words, and above 1/2 for
      words of 32 bits only with n = 512 and 1024, where it is ``1 - 2^(7-L)``. That makes n times as much.
    * R(v, s) is off by at most 1/2 (or ``1 - 2^-s``) of the ``2^s`` units that it makes one of. So the P workers' own
      sums add ``P 2^L_D`` times that, and the aggregator's adds ``2^(L_D + L_P)`` times that; with s = 0 nothing.

    Args:
      exponents: uint8, the largest byte of all workers for each block.
      workers: n, how many arrays are summed.
      bits: w, 8, 16 or 32.
      devices_per_worker: D. It matters to narrow words only.
      stochastic: whether rounding is stochastic. It matters to narrow words only.

    Returns:
      float64, of the shape of `exponents`.

    Raises:
      ValueError: an exponent is 255, D does not divide n, or n or w is out of range.
    """
    within, down = shifts(workers, devices_per_worker, bits)
    room = head_room(workers, bits)
    largest_below = 2.0 ** (bits - 1 - room) * (1 - 2.0**-24)  # the largest float32 under 2^m, scaled
    random = stochastic and bits < 32
    up = workers * max(1.0 if random else 0.5, largest_below - quantized_limit(workers, bits))
    local = workers // devices_per_worker * _round_shift_error(within, random)
    units = up + local + 2.0**within * _round_shift_error(down, random)
    return units * np.ldexp(1.0, -scale_exponent(exponents, workers, bits))


def _round_shift_error(shift: int, stochastic: bool) -> float:
    """The largest |2^s R(v, s) - v|."""
    if shift == 0:
        return 0.0
    return 2.0**shift - 1 if stochastic else 2.0 ** (shift - 1)
