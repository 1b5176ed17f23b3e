"""The SwitchML paper's own scale, for comparison with jaxina's in studies.

Source: Sapio et al., NSDI 2021, section 4.6. With m and n as in `jaxina.numerics.reference`:

* ``f = (2^31 - 1) / (n 2^m)``
* ``q = rint(f x)``
* ``y = (sum q) / f``

This scale uses int32's whole range for every n; jaxina's ``2^S`` loses up to one bit. But f is not a power of two, so
even integers do not sum exactly. Nothing is clamped: for many n from 298 on, the sum of n words can exceed int32 and
wrap. The paper's theorem 2 asks for ``f <= (2^31 - n) / (n B)`` instead, where B bounds the values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from jaxina.config import DEFAULT_BLOCK_SIZE
from jaxina.numerics.blocks import log2_workers
from jaxina.numerics.reference import as_flat_float32, block_exponents, per_element


def scale(exponents: npt.ArrayLike, workers: int) -> npt.NDArray[np.float64]:
    """Computes f for each block's exponent byte b = m + 126.

    Args:
      exponents: uint8, one byte per block.
      workers: n.

    Returns:
      float64, since f can exceed float32's range.

    Raises:
      ValueError: n is out of range.
    """
    log2_workers(workers)
    m = np.asarray(exponents).astype(np.int32) - 126
    return np.ldexp((2.0**31 - 1) / workers, -m)


def quantize(
    x: npt.ArrayLike, exponents: npt.ArrayLike, workers: int, block_size: int = DEFAULT_BLOCK_SIZE
) -> npt.NDArray[np.int32]:
    """Computes ``q = rint(f x)``: float32[N], uint8[ceil(N / k)] -> int32[N]. `x` must be finite.

    Raises:
      TypeError: `x` is not float32.
      ValueError: the number of exponents is not that of the blocks, or n is out of range.
    """
    flat = as_flat_float32(x).astype(np.float64)
    f = per_element(scale(exponents, workers), flat.size, block_size)
    return np.rint(f * flat).astype(np.int32)


def dequantize(
    words: npt.ArrayLike,
    exponents: npt.ArrayLike,
    workers: int,
    block_size: int = DEFAULT_BLOCK_SIZE,
) -> npt.NDArray[np.float32]:
    """Computes ``y = words / f``: int32[N], uint8[ceil(N / k)] -> float32[N].

    Raises:
      ValueError: the number of exponents is not that of the blocks, or n is out of range.
    """
    flat = np.asarray(words, dtype=np.int32).reshape(-1)
    f = per_element(scale(exponents, workers), flat.size, block_size)
    with np.errstate(over="ignore", under="ignore"):
        return (flat.astype(np.float64) / f).astype(np.float32)


def all_reduce(arrays: Sequence[npt.ArrayLike], block_size: int = DEFAULT_BLOCK_SIZE) -> npt.NDArray[np.float32]:
    """Sums one finite float32 array per worker. Sums of words wrap modulo 2^32.

    Returns:
      float32, of the shape of the first array.

    Raises:
      TypeError: an array is not float32.
      ValueError: there are no or too many arrays, or their sizes differ.
    """
    exponents = np.max([block_exponents(array, block_size) for array in arrays], axis=0)
    words = np.zeros(np.asarray(arrays[0]).size, np.int32)
    for array in arrays:
        words += quantize(array, exponents, len(arrays), block_size)
    return dequantize(words, exponents, len(arrays), block_size).reshape(np.shape(arrays[0]))
