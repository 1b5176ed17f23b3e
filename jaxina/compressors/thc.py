"""THC: rotates an array, quantizes it to the entries of a table, and sums the entries."""

from __future__ import annotations

import dataclasses
import functools
import math
import statistics
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from jaxina.compressors.base import SUM, Arrays, Compressor, Context, Promise
from jaxina.compressors.packing import Field, floats, integers, lookup
from jaxina.compressors.random_numbers import coins, uniform
from jaxina.compressors.rounding import from_rows, rows_of
from jaxina.errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True, kw_only=True)
class THC(Compressor):
    """THC: a shared random rotation makes the elements nearly normal; then each becomes one of 2^bits table entries.

    1. Each block of d elements is multiplied by random signs and a Hadamard matrix, the same on all workers.
    2. The elements are clipped to ``[-R, R]``. ``R = t max(|block|) / sqrt(d)``, where the maximum is over the
       workers, and a normal variable exceeds t standard deviations with probability 1 / 32.
    3. ``[-R, R]`` is divided by a grid of `grid` steps. The table has 2^bits of the grid's points. Each element is
       rounded at random to one of the two table entries next to it.
    4. A worker sends the entry's index. The aggregator looks up the entry's position on the grid, and sums positions.

    Source: Li et al., NSDI 2024.

    Attributes:
      bits: how many bits an index has, 1 to 8.
      grid: how many steps the grid has: even, and at least 2^bits - 1. Positions run from -grid / 2 to grid / 2.
      block: how many elements are rotated together, a power of two of at least 2.
    """

    bits: int = 4
    grid: int = 30
    block: int = 1024

    promise = Promise(
        title="THC",
        paper="Li et al., THC: Accelerating Distributed Deep Learning Using Tensor Homomorphic Compression, NSDI 2024",
        unbiased=False,
        error_feedback="on",
        note="Unbiased, except for the clipping of rotated elements, which error feedback makes up for. An array is "
        "padded to whole blocks. The table is the best one for a normal variable, found by dynamic programming.",
    )
    kind = SUM

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.bits <= 8 or self.grid < 2**self.bits - 1 or self.grid % 2:
            raise InvalidArgumentError(
                f"bits must be in [1, 8] and grid even, at least 2^bits - 1, not {self.bits} and {self.grid}"
            )
        if self.block < 2 or self.block & (self.block - 1):
            raise InvalidArgumentError(f"the block must be a power of two, not {self.block}")

    def propose(self, x: jax.Array) -> Arrays:
        rows = rows_of(x, self._length(x.size))
        largest = jnp.abs(rows).max(axis=1, keepdims=True)
        relative = rows / jnp.where(largest > 0, largest, 1)
        root_mean_square = jnp.sqrt((relative**2).mean(axis=1)) * largest[:, 0]
        # The cap keeps the sums of the decoding below float32's largest number.
        return {"range": jnp.minimum(clip_point() * root_mean_square, 2.0**100)}

    def propose_fields(self) -> Mapping[str, Field]:
        return {"range": floats()}

    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        bound = context.agreed["range"][:, None]
        relative = rows_of(x, self._length(context.size)) / jnp.where(bound > 0, bound, 1)
        rotated = rotate(relative * self._signs(context))
        position = jnp.clip(rotated, -1, 1) * (self.grid / 2)
        table = np.array(best_table(self.bits, self.grid))
        # The table's entries are points of the grid, so the last point before a position tells the entry before it.
        points = np.arange(-self.grid // 2, self.grid // 2 + 1)
        before = np.minimum(np.searchsorted(table, points, side="right") - 1, table.size - 2)
        point = jnp.floor(position).astype(jnp.int32) + self.grid // 2
        low, high = (jnp.array(table[entry], jnp.float32)[point] for entry in (before, before + 1))
        up = uniform(context.private_key, position.shape) * (high - low) < position - low
        return {"positions": jnp.where(up, high, low).astype(jnp.int32)}, state

    def decode(self, payload: Arrays, context: Context) -> jax.Array:
        relative = payload["positions"].astype(jnp.float32) / (self.grid / 2)
        rows = rotate(relative) * self._signs(context) * context.agreed["range"][:, None]
        return from_rows(rows, context.shape, context.size)

    def fields(self, context: Context, summed: bool) -> Mapping[str, Field]:
        if not summed:
            return {"positions": lookup(best_table(self.bits, self.grid))}
        most = context.workers * self.grid // 2
        return {"positions": integers(-most, most)}

    def _length(self, size: int) -> int:
        """The length of a block. Small arrays have one smaller block."""
        return min(self.block, max(2, 1 << (size - 1).bit_length()))

    def _signs(self, context: Context) -> jax.Array:
        """The random signs, [blocks, length], that all workers multiply by before the rotation."""
        length = self._length(context.size)
        return jnp.where(coins(context.shared_key, (-(-context.size // length), length)), 1.0, -1.0)


def rotate(rows: jax.Array) -> jax.Array:
    """Multiplies each row by the orthonormal Hadamard matrix, which is its own inverse.

    The matrix is the Kronecker product of two smaller Hadamard matrices. Their sizes are near the square root of its
    size, which makes the product cheap.

    Args:
      rows: float32[rows, 2^p].
    """
    length = rows.shape[1]
    small = 1 << ((length.bit_length() - 1) // 2)
    left, right = (jnp.array(hadamard(size), jnp.float32) for size in (length // small, small))
    squares = rows.reshape(-1, length // small, small)
    product = jnp.einsum("ij,rjk,kl->ril", left, squares, right, precision=jax.lax.Precision.HIGHEST)
    return product.reshape(-1, length) / math.sqrt(length)


def hadamard(size: int) -> np.ndarray:
    """Makes Sylvester's Hadamard matrix, [size, size].

    An entry is -1 if its two indices have an odd number of set bits in common, else 1.
    """
    indices = np.arange(size)
    common = indices[:, None] & indices[None, :]
    return np.array([[1 - 2 * (int(value).bit_count() % 2) for value in row] for row in common])


def clip_point() -> float:
    """Computes t such that a standard normal variable lies outside [-t, t] with probability 1 / 32."""
    return statistics.NormalDist().inv_cdf(1 - 1 / 64)


@functools.cache
def best_table(bits: int, grid: int) -> tuple[int, ...]:
    """Finds the 2^bits grid positions to which a normal variable is rounded at random with the least variance.

    The variable has standard deviation 1; position grid / 2 stands for `clip_point`. Both ends, -grid / 2 and grid / 2,
    are in the table. It is found by dynamic programming over the positions: ``cost[j]`` is the least variance below
    position j with the entries used so far, when j is an entry.
    """
    points = clip_point() * np.linspace(-1, 1, grid + 1)
    step = _variance_between(points[:, None], points[None, :])
    cost = np.where(np.arange(grid + 1) == 0, 0.0, np.inf)
    choices = []
    for _ in range(2**bits - 1):
        candidates = np.where(np.tri(grid + 1, k=-1, dtype=bool).T, cost[:, None] + step, np.inf)
        choices.append(candidates.argmin(axis=0))
        cost = candidates.min(axis=0)
    position, chosen = grid, [grid]
    for before in reversed(choices):
        position = int(before[position])
        chosen.append(position)
    return tuple(position - grid // 2 for position in reversed(chosen))


def _variance_between(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The variance that comes from rounding a normal variable within [low, high] at random to `low` or `high`.

    It is the integral over [low, high] of (x - low)(high - x) times the normal density.
    """
    normal = statistics.NormalDist()
    cdf, density = np.vectorize(normal.cdf), np.vectorize(normal.pdf)
    zeroth = cdf(high) - cdf(low)
    first = density(low) - density(high)
    second = zeroth + low * density(low) - high * density(high)
    return -second + (low + high) * first - low * high * zeroth
