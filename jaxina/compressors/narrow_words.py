"""Narrow words: block fixed point that uses all 8 or 16 bits in both directions, as `jaxina.numerics` specifies."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from jaxina.compressors.base import SUM, Arrays, Compressor, Context, Promise
from jaxina.compressors.packing import Field, integers
from jaxina.errors import InvalidArgumentError
from jaxina.numerics import jnp_reference
from jaxina.numerics.blocks import shifts
from jaxina.numerics.jnp_random import random_words, seed_down, seed_up


@dataclasses.dataclass(frozen=True, kw_only=True)
class NarrowWords(Compressor):
    """Sends ``q = rint(x 2^S)`` in words of w bits, and receives the sum of n words, shifted back into w bits.

    It is the arithmetic of `jaxina.numerics` for narrow words, with one device in each worker. With rounding to
    nearest, the sum is that of ``numerics.all_reduce_reference(arrays, block, bits=w)``, bit for bit. With stochastic
    rounding, a collective's seed comes from the leaf's random key instead of a job's seed.

    A program exchanges the words as int32, which any collective sums exactly, and each worker does what the aggregator
    would do to the sum (`aggregate`). The bytes that are counted are those of an aggregator that does it itself.

    Source: Sapio et al., NSDI 2021, section 4.6, with a power of two as the scale, and a rounding shift of the sum.

    Attributes:
      bits: w, 8 or 16.
      block: k, how many elements share an exponent, at least 1.
      stochastic: whether to round at random, without bias, instead of to nearest.
    """

    bits: int = 8
    block: int = 256
    stochastic: bool = False

    promise = Promise(
        title="narrow words",
        paper="Sapio et al., Scaling Distributed Machine Learning with In-Network Aggregation, NSDI 2021",
        unbiased=False,
        error_feedback="off",
        note="Unbiased with `stochastic`, except that a value within a unit of the power of two above its block is cut "
        "off to the largest word. All bits are used, and the sum is shifted back into them by ceil(log2 n) bits. Error "
        "feedback makes up for what is lost on the way up, not for the shift. docs/narrow_words.md has the errors.",
    )
    kind = SUM

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bits not in (8, 16) or self.block < 1:
            raise InvalidArgumentError(f"bits must be 8 or 16 and block at least 1, not {self.bits}, {self.block}")

    def propose(self, x: jax.Array) -> Arrays:
        return {"exponents": jnp_reference.block_exponents(x, self.block).astype(jnp.int32)}

    def propose_fields(self) -> Mapping[str, Field]:
        return {"exponents": integers(0, 255)}

    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        seed = seed_up(self._seed(context), context.worker) if self.stochastic else None
        exponents = context.agreed["exponents"]
        words = jnp_reference.quantize(x, exponents, context.workers, self.block, bits=self.bits, seed=seed)
        return {"words": words}, state

    def aggregate(self, total: Arrays, context: Context) -> Arrays:
        random = random_words(seed_down(self._seed(context)), context.size) if self.stochastic else None
        return {"words": jnp_reference.round_shift(total["words"], self._shift(context), random)}

    def decode(self, payload: Arrays, context: Context) -> jax.Array:
        return self._decoded(payload, context, 0)

    def decode_sum(self, total: Arrays, context: Context) -> jax.Array:
        return self._decoded(total, context, self._shift(context))

    def fields(self, context: Context, summed: bool) -> Mapping[str, Field]:
        bound = 2 ** (self.bits - 1)
        return {"words": integers(-bound, bound - 1)}

    def _decoded(self, payload: Arrays, context: Context, shift: int | jax.Array) -> jax.Array:
        words, exponents = payload["words"], context.agreed["exponents"]
        y = jnp_reference.dequantize(words, exponents, context.workers, self.block, bits=self.bits, shift=shift)
        return y.reshape(context.shape)

    def _shift(self, context: Context) -> int:
        return shifts(context.workers, 1, self.bits)[1]

    def _seed(self, context: Context) -> jax.Array:
        """s1 of this leaf in this step, the same on all workers: uint32[2]."""
        return jax.random.bits(context.shared_key, (2,), jnp.uint32)
