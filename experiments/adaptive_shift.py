"""The compressors `adaptive8` and `adaptive16`, for studies only: narrow words with a shift for each block.

They are `int8` and `int16`, but the aggregator shifts each block of the sum by as few bits as its largest number
allows, and sends the shift with the block, in a byte. `experiments.narrow_words` has the errors of such sums.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from jaxina import compressors
from jaxina.compressors.base import Arrays, Context
from jaxina.compressors.messages import LeafReduction
from jaxina.compressors.narrow_words import NarrowWords
from jaxina.compressors.packing import Field, integers
from jaxina.compressors.rounding import rows_of
from jaxina.numerics import jnp_reference
from jaxina.numerics.blocks import quantized_limit
from jaxina.numerics.jnp_random import random_words, seed_down


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdaptiveShift(NarrowWords):
    """As `NarrowWords`, with the least shift that fits each block.

    Where jaxina carries the sum, it carries the words as integers: its own narrow words have the fixed shift.
    """

    def reduce(self, x: jax.Array, state: Arrays, context: Context) -> LeafReduction:
        return super().reduce(x, state, dataclasses.replace(context, wire_block=0))

    def aggregate(self, total: Arrays, context: Context) -> Arrays:
        random = random_words(seed_down(self._seed(context)), context.size) if self.stochastic else None
        choices = [
            jnp_reference.round_shift(total["words"], shift, random) for shift in range(self._shift(context) + 1)
        ]
        largest = jnp.stack([jnp.abs(rows_of(words, self.block)).max(axis=1) for words in choices])
        shifts = jnp.argmax(largest <= quantized_limit(context.workers, self.bits), axis=0)  # the first that fits
        words = jnp.choose(self._per_element(shifts, context), choices, mode="clip")
        return {"words": words, "shifts": shifts.astype(jnp.int32)}

    def decode_sum(self, total: Arrays, context: Context) -> jax.Array:
        return self._decoded(total, context, self._per_element(total["shifts"], context))

    def fields(self, context: Context, summed: bool) -> Mapping[str, Field]:
        shifts = {"shifts": integers(0, 255)} if summed else {}
        return {**super().fields(context, summed), **shifts}

    def _per_element(self, per_block: jax.Array, context: Context) -> jax.Array:
        return jnp_reference.spread(per_block, self.block, context.size)


compressors.register("adaptive8", AdaptiveShift, bits=8)
compressors.register("adaptive16", AdaptiveShift, bits=16)
