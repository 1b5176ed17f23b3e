"""The SwitchML paper's own scale, kept beside jaxina's for comparison in studies.

Section 4.6 of Sapio et al., NSDI 2021, with m and n as in `jaxina.numerics.reference`:

* ``f = (2^31 - 1) / (n 2^m)``
* ``q = rint(f x)``
* ``y = (sum q) / f``

It uses all of int32's range for every n, where jaxina's ``2^S`` gives up to one bit away; but f is
no power of two, so even integers do not sum exactly. Nothing is clamped, and for many n from 298 on
the sum of n words can exceed int32 and wrap; the paper's theorem 2 asks for
``f <= (2^31 - n) / (n B)`` instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from jaxina.numerics.blocks import DEFAULT_BLOCK_SIZE, log2_workers
from jaxina.numerics.reference import as_flat_float32, block_exponents, per_element


def scale(exponents: npt.ArrayLike, workers: int) -> npt.NDArray[np.float64]:
    """f for each block's exponent byte b = m + 126; it can exceed float32's range."""
    log2_workers(workers)
    m = np.asarray(exponents).astype(np.int32) - 126
    return np.ldexp((2.0**31 - 1) / workers, -m)


def quantize(
    x: npt.ArrayLike, exponents: npt.ArrayLike, workers: int, block_size: int = DEFAULT_BLOCK_SIZE
) -> npt.NDArray[np.int32]:
    """``q = rint(f x)``: float32[N], uint8[ceil(N / k)] -> int32[N]; x must be finite."""
    flat = as_flat_float32(x).astype(np.float64)
    f = per_element(scale(exponents, workers), flat.size, block_size)
    return np.rint(f * flat).astype(np.int32)


def dequantize(
    words: npt.ArrayLike,
    exponents: npt.ArrayLike,
    workers: int,
    block_size: int = DEFAULT_BLOCK_SIZE,
) -> npt.NDArray[np.float32]:
    """``y = words / f``: int32[N], uint8[ceil(N / k)] -> float32[N]."""
    flat = np.asarray(words, dtype=np.int32).reshape(-1)
    f = per_element(scale(exponents, workers), flat.size, block_size)
    with np.errstate(over="ignore", under="ignore"):
        return (flat.astype(np.float64) / f).astype(np.float32)


def all_reduce(arrays: Sequence[npt.ArrayLike], block_size: int = DEFAULT_BLOCK_SIZE) -> npt.NDArray[np.float32]:
    """The sum of one finite float32 array per worker; the sums of words wrap modulo 2^32."""
    exponents = np.max([block_exponents(array, block_size) for array in arrays], axis=0)
    words = np.zeros(np.asarray(arrays[0]).size, np.int32)
    for array in arrays:
        words += quantize(array, exponents, len(arrays), block_size)
    return dequantize(words, exponents, len(arrays), block_size).reshape(np.shape(arrays[0]))
