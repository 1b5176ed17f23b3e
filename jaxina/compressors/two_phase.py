"""Two-phase quantized all-reduce: a reduce-scatter and an all-gather, both of quantized blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from jaxina.compressors.base import ALL_TO_ALL, GATHER, Arrays, Compressor, Context, Message, Promise
from jaxina.compressors.messages import LeafReduction
from jaxina.compressors.packing import Field, floats, integers
from jaxina.compressors.rounding import from_rows, parts_of, stochastic_round
from jaxina.errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True, kw_only=True)
class TwoPhase(Compressor):
    """qgZ: every worker averages a part of the array. Parts are quantized on their way there and back.

    1. The array is cut into n parts of equal length; the last ones are filled up with zeros. A worker quantizes its
       parts, and part w goes to worker w (all-to-all).
    2. Worker w decodes the n parts that it got, and averages them in float32. It quantizes the mean, which goes to all
       workers (all-gather).

    A block of a part is sent as its largest magnitude L, float32, and as ``q = round(Q x / L)`` for each element, where
    ``Q = 2^(bits - 1) - 1``. Blocks begin anew in each part. So an element is rounded twice, however many workers there
    are, and workers need no common scale.

    Error feedback owes both roundings. What worker w loses of the mean of its part is n times as much of its own
    gradient (the server's memory in Tang et al., DoubleSqueeze, ICML 2019, kept with the worker's).

    Source: Wang et al., ZeRO++, ICLR 2024 (qgZ, within one level of its hierarchy); Ahmed et al., EQuARX, 2025, with
    the same two phases.

    Attributes:
      bits: width of a word, 2 to 8.
      block: how many elements share a scale, at least 1.
      stochastic: whether to round up or down at random, without bias, instead of to nearest.
    """

    bits: int = 8
    block: int = 256
    stochastic: bool = False

    promise = Promise(
        title="two-phase quantized",
        paper="Wang et al., ZeRO++: Extremely Efficient Collective Communication for Large Model Training, ICLR 2024; "
        "Ahmed et al., EQuARX: Efficient Quantized AllReduce in XLA for Distributed Machine Learning Acceleration, "
        "2025 (arXiv:2506.17615)",
        unbiased=False,
        error_feedback="off",
        note="Unbiased with `stochastic`. Workers exchange parts of the array among themselves: n - 1 parts in an "
        "all-to-all, then one to each in an all-gather. Every element is rounded twice.",
    )
    kind = ALL_TO_ALL

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.bits <= 8 or self.block < 1:
            raise InvalidArgumentError(f"bits must be in [2, 8] and block at least 1, not {self.bits}, {self.block}")

    def reduce(self, x: jax.Array, state: Arrays, context: Context) -> LeafReduction:
        x = self.with_memory(x, state)
        first, _ = self.encode(x, state, context)
        fields = self.fields(context, False)
        received = yield Message(ALL_TO_ALL, first, fields, fields)
        own = (self._dequantized(received) / context.workers).sum(axis=0, keepdims=True)
        second = self._quantized(own, jax.random.fold_in(context.private_key, 1))
        gathered = yield Message(GATHER, {name: array[0] for name, array in second.items()}, fields, fields)
        if self.error_feedback:
            lost = context.workers * (own - self._dequantized(second))
            errors = (parts_of(x, context.workers) - self._dequantized(first)).at[context.worker].add(lost[0])
            state = self.remember(from_rows(errors, context.shape, context.size), state)
        return from_rows(self._dequantized(gathered), context.shape, context.size), state

    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        """Quantizes the parts, as phase 1 sends them."""
        return self._quantized(parts_of(x, context.workers), context.private_key), state

    def decode(self, payload: Arrays, context: Context) -> jax.Array:
        return from_rows(self._dequantized(payload), context.shape, context.size)

    def fields(self, context: Context, summed: bool) -> Mapping[str, Field]:
        return {"largest": floats(), "words": integers(-self._limit, self._limit)}

    @property
    def _limit(self) -> int:
        return 2 ** (self.bits - 1) - 1

    def _quantized(self, parts: jax.Array, key: jax.Array) -> Arrays:
        """Quantizes each row of `parts`, [rows, length]."""
        blocks = self._blocks(parts)
        largest = jnp.abs(blocks).max(axis=2)
        shares = blocks / jnp.where(largest > 0, largest, 1)[..., None] * self._limit
        rounded = stochastic_round(shares, key) if self.stochastic else jnp.rint(shares)
        words = jnp.clip(rounded, -self._limit, self._limit).astype(jnp.int8)
        return {"largest": largest, "words": words.reshape(len(parts), -1)[:, : parts.shape[1]]}

    def _dequantized(self, payload: Arrays) -> jax.Array:
        """The rows that `_quantized` has encoded."""
        words = payload["words"]
        values = self._blocks(words).astype(jnp.float32) / self._limit * payload["largest"][..., None]
        return values.reshape(len(words), -1)[:, : words.shape[1]]

    def _blocks(self, parts: jax.Array) -> jax.Array:
        """Cuts rows into blocks, [rows, blocks, block], and fills up the last ones with zeros."""
        filled = jnp.pad(parts, ((0, 0), (0, -parts.shape[1] % self.block)))
        return filled.reshape(len(parts), -1, self.block)
