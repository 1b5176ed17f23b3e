"""THC: rotate, quantize to a table that the aggregator looks up, sum."""

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
from jaxina.compressors.rounding import from_rows, rows_of
from jaxina.errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True, kw_only=True)
class THC(Compressor):
    """Li et al.: a shared random rotation makes the elements near normal; each becomes one of 2^bits table entries.

    Blocks are multiplied by random signs and a Hadamard matrix. Elements are clipped to ``[-R, R]`` with R = t max over
    workers of |block| / sqrt(d), where a normal variable exceeds t standard deviations with probability 1 / 32, and
    rounded at random to one of the two neighbours among 2^bits points of the grid of `grid` steps over [-R, R]. A
    worker sends the point's number; the aggregator looks up its position on the grid and sums positions.

    Attributes:
      bits: bits of a number sent.
      grid: steps of the grid, even: positions run from -grid / 2 to grid / 2.
      block: elements rotated together, a power of two.
    """

    bits: int = 4
    grid: int = 30
    block: int = 1024

    promise = Promise(
        title="THC",
        paper="Li et al., THC: Accelerating Distributed Deep Learning Using Tensor Homomorphic Compression, NSDI 2024",
        unbiased=False,
        error_feedback="on",
        note="Unbiased but for the clipping of rotated elements, which error feedback repays. An array is filled up to "
        "whole blocks. The table is the best one for a normal variable, found by dynamic programming.",
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
        # The cap leaves room for what decoding adds up, up to float32's largest number.
        return {"range": jnp.minimum(clip_point() * root_mean_square, 2.0**100)}

    def propose_fields(self) -> Mapping[str, Field]:
        return {"range": floats()}

    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        bound = context.agreed["range"][:, None]
        relative = rows_of(x, self._length(context.size)) / jnp.where(bound > 0, bound, 1)
        rotated = rotate(relative * self._signs(context))
        position = jnp.clip(rotated, -1, 1) * (self.grid / 2)
        table = jnp.array(best_table(self.bits, self.grid), jnp.float32)
        below = jnp.clip(jnp.searchsorted(table, position, side="right") - 1, 0, table.size - 2)
        share = (position - table[below]) / (table[below + 1] - table[below])
        chosen = below + (jax.random.uniform(context.private_key, share.shape) < share)
        return {"positions": table[chosen].astype(jnp.int32)}, state

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
        """Of a block: small arrays have smaller blocks."""
        return min(self.block, max(2, 1 << (size - 1).bit_length()))

    def _signs(self, context: Context) -> jax.Array:
        """The random signs that all workers multiply with before the rotation."""
        length = self._length(context.size)
        return jax.random.rademacher(context.shared_key, (-(-context.size // length), length), jnp.float32)


def rotate(rows: jax.Array) -> jax.Array:
    """Each row, of length 2^p, times the orthonormal Hadamard matrix, which is its own inverse.

    That matrix is the Kronecker product of two smaller ones, of sizes near the square root.
    """
    length = rows.shape[1]
    small = 1 << ((length.bit_length() - 1) // 2)
    left, right = (jnp.array(hadamard(size), jnp.float32) for size in (length // small, small))
    squares = rows.reshape(-1, length // small, small)
    product = jnp.einsum("ij,rjk,kl->ril", left, squares, right, precision=jax.lax.Precision.HIGHEST)
    return product.reshape(-1, length) / math.sqrt(length)


def hadamard(size: int) -> np.ndarray:
    """Sylvester's matrix of ones and minus ones, [size, size]: minus where the bits that both indices set are odd."""
    indices = np.arange(size)
    common = indices[:, None] & indices[None, :]
    return np.array([[1 - 2 * (int(value).bit_count() % 2) for value in row] for row in common])


def clip_point() -> float:
    """t: a standard normal variable lies outside [-t, t] with probability 1 / 32."""
    return statistics.NormalDist().inv_cdf(1 - 1 / 64)


@functools.cache
def best_table(bits: int, grid: int) -> tuple[int, ...]:
    """The 2^bits grid positions, from -grid / 2 to grid / 2, that round a normal variable at random with least variance.

    The variable has standard deviation 1, and grid / 2 stands for `clip_point()`. Both ends are in the table. Dynamic
    programming over the positions: cost[j] is the least variance below position j with the entries used so far.
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
    """The integral over [low, high] of (x - low)(high - x) times the normal density: rounding at random to the ends."""
    normal = statistics.NormalDist()
    cdf, density = np.vectorize(normal.cdf), np.vectorize(normal.pdf)
    zeroth = cdf(high) - cdf(low)
    first = density(low) - density(high)
    second = zeroth + low * density(low) - high * density(high)
    return -second + (low + high) * first - low * high * zeroth
