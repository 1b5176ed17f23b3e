"""Block fixed point: blocks of integers with a common exponent, which leave room for their sum."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from jaxina.compressors.base import SUM, Arrays, Compressor, Context, Promise
from jaxina.compressors.packing import Field, integers
from jaxina.compressors.rounding import from_rows, rows_of, stochastic_round
from jaxina.config import DEFAULT_BLOCK_SIZE
from jaxina.errors import InvalidArgumentError
from jaxina.numerics import jnp_reference
from jaxina.numerics.blocks import log2_workers


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockFixedPoint(Compressor):
    """Sends ``q = rint(x f)``, where all workers share the scale f of each block.

    No magnitude of the block exceeds 2^m on any worker. With Q = floor((2^(bits - 1) - 1) / n), the largest word,
    ``f = min(2^(bits - 1 - ceil(log2 n)), Q) / 2^m``. So the sum of n words fits into `bits` bits, both directions
    carry words of that width, and no value is cut off.

    Of 8 and 16 bits, jaxina's own words leave no room (`jaxina.compressors.narrow_words`). These are for comparison.

    With 32 bits and rounding to nearest, ``f = 2^(31 - ceil(log2 n)) / 2^m`` always. Then the words are those of
    `jaxina.numerics`, bit for bit, and at most a word's last unit is cut off.

    Source: Sapio et al., NSDI 2021, section 4.6, with a power of two as the scale where that is possible.

    Attributes:
      bits: width of a word, 2 to 32. Use more than 1 + ceil(log2 n), or nothing of a value is left.
      block: k, how many elements share an exponent, at least 1.
      stochastic: whether to round up or down at random, without bias, instead of to nearest.
      paper: whether to use the paper's scale ``(2^(bits-1) - 1) / (n 2^m)``, rounded down to ``Q / 2^m``.
    """

    bits: int = 32
    block: int = DEFAULT_BLOCK_SIZE
    stochastic: bool = False
    paper: bool = False

    promise = Promise(
        title="block fixed point",
        paper="Sapio et al., Scaling Distributed Machine Learning with In-Network Aggregation, NSDI 2021",
        unbiased=False,
        error_feedback="off",
        note="Unbiased with `stochastic`. The scale is a power of two, or a little less if a sum of n words would "
        "otherwise not fit; so no value is clipped. Values below 2^-126 may count as zero, except with 32 bits and "
        "rounding to nearest. Fewer bits lose ceil(log2 n) of them to the sum: 8 workers leave `blockfp:8` five bits.",
    )
    kind = SUM

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.bits <= 32 or self.block < 1:
            raise InvalidArgumentError(f"bits must be in [2, 32] and block at least 1, not {self.bits}, {self.block}")

    def limit(self, workers: int) -> int:
        """Computes Q, the largest word: the sum of n of them cannot overflow.

        Raises:
          InvalidArgumentError: Q is zero, so that nothing of a value is left.
        """
        largest = (2 ** (self.bits - 1) - 1) // workers
        if largest < 1:
            raise InvalidArgumentError(f"{self.bits} bits leave nothing for each of {workers} workers")
        return largest

    def propose(self, x: jax.Array) -> Arrays:
        return {"exponents": jnp_reference.block_exponents(x, self.block).astype(jnp.int32)}

    def propose_fields(self) -> Mapping[str, Field]:
        return {"exponents": integers(0, 255)}

    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        limit = self.limit(context.workers)
        exponents = context.agreed["exponents"]
        if self._as_on_the_wire:
            return {"words": jnp_reference.quantize(x, exponents, context.workers, self.block)}, state
        scaled = self._scale(rows_of(x, self.block), exponents[:, None], context.workers)
        rounded = stochastic_round(scaled, context.private_key) if self.stochastic else jnp.rint(scaled)
        words = jnp.clip(rounded.astype(jnp.int32), -limit, limit)  # float32 may round a large Q up
        return {"words": words.reshape(-1)[: x.size]}, state

    def decode(self, payload: Arrays, context: Context) -> jax.Array:
        words, exponents = payload["words"], context.agreed["exponents"]
        if self._as_on_the_wire:
            return jnp_reference.dequantize(words, exponents, context.workers, self.block).reshape(context.shape)
        rows = rows_of(words, self.block).astype(jnp.float32)
        return from_rows(self._unscale(rows, exponents[:, None], context.workers), context.shape, context.size)

    def fields(self, context: Context, summed: bool) -> Mapping[str, Field]:
        limit = self.limit(context.workers) * (context.workers if summed else 1)
        bound = 2 ** (self.bits - 1)  # words of 8, 16 and 32 bits are sent whole, as machine words
        return {"words": integers(-bound, bound - 1) if self.bits in (8, 16, 32) else integers(-limit, limit)}

    @property
    def _as_on_the_wire(self) -> bool:
        """Whether the words are those that jaxina's own sums of float32 have."""
        return self.bits == 32 and not self.stochastic and not self.paper

    def _scale(self, rows: jax.Array, exponents: jax.Array, workers: int) -> jax.Array:
        """Computes x 2^-m, which is in [-1, 1], and then multiplies by the factor. No step leaves float32's range."""
        return _times_power(rows, 126 - exponents) * self._factor(workers)

    def _unscale(self, rows: jax.Array, exponents: jax.Array, workers: int) -> jax.Array:
        return _times_power(rows / self._factor(workers), exponents - 126)

    def _factor(self, workers: int) -> float:
        """f 2^m. It is at most Q: with Q + 1, words of values next to 2^m would be cut off, which is a bias."""
        limit = float(self.limit(workers))
        return limit if self.paper else min(2.0 ** (self.bits - 1 - log2_workers(workers)), limit)


def _times_power(x: jax.Array, power: jax.Array) -> jax.Array:
    """Computes ``x 2^power`` in two exact steps.

    For powers up to 252 in magnitude, each half is a normal number, but 2^power itself may not be.
    """
    half = power // 2
    return x * _power_of_two(half) * _power_of_two(power - half)


def _power_of_two(power: jax.Array) -> jax.Array:
    return jax.lax.bitcast_convert_type((power + 127) << 23, jnp.float32)
