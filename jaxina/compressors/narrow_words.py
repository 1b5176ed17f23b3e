"""Narrow words: block fixed point that uses all 8 or 16 bits in both directions, as `jaxina.numerics` specifies."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from jaxina.compressors.base import Compressor
from jaxina.compressors.context import Context, Promise
from jaxina.compressors.messages import MAX, SUM, Arrays, LeafReduction, Message, Narrow
from jaxina.compressors.packing import Field, integers
from jaxina.config import DEFAULT_BLOCK_SIZE, ROUNDINGS
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

    **Where jaxina carries the sum**, and the job's block size is `block`, the array itself goes to `jax.lax.psum`, as
    in ``jaxina.collectives(bits=w, smallest=0)``. The engine makes the words, and the aggregator shifts their sum. With
    rounding to nearest and one device in each process the bits are the same. Several devices of a process are one
    worker there, whose sum is shifted first: the result is that of ``all_reduce_reference(...,
    devices_per_worker=D)``. Stochastic rounding takes its random numbers from `seed` and the collective's number, not
    from the leaf's key; with error feedback, what goes up is rounded with the key.

    **Elsewhere** a program exchanges the words as int32, which any collective sums exactly, and each worker does what
    the aggregator would do to the sum (`aggregate`).

    Source: Sapio et al., NSDI 2021, section 4.6, with a power of two as the scale, and a rounding shift of the sum.

    Attributes:
      bits: w, 8 or 16.
      block: k, how many elements share an exponent, at least 1.
      stochastic: whether to round at random, without bias, instead of to nearest.
      seed: of stochastic rounding where jaxina carries the sum, from 0 to 2^64 - 1. Each step has other numbers.
    """

    bits: int = 8
    block: int = DEFAULT_BLOCK_SIZE
    stochastic: bool = False
    seed: int = 0

    promise = Promise(
        title="narrow words",
        paper="Sapio et al., Scaling Distributed Machine Learning with In-Network Aggregation, NSDI 2021",
        unbiased=False,
        error_feedback="off",
        note="Unbiased with `stochastic`, except that the largest values, within one step of the upper end, are "
        "clipped: the power of two above the block has no word. All bits are used, and the sum is shifted back into "
        "them by ceil(log2 n) bits. Error feedback makes up for what is lost on the way up, not for the shift. "
        "[Narrow words](narrow_words.md) has the errors.",
    )
    kind = SUM

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bits not in (8, 16) or self.block < 1:
            raise InvalidArgumentError(f"bits must be 8 or 16 and block at least 1, not {self.bits}, {self.block}")
        if not 0 <= self.seed < 2**64:
            raise InvalidArgumentError(f"seed must be from 0 to 2^64 - 1, not {self.seed}")

    def mean_shows_non_finite(self, context: Context) -> bool:
        """The engine sums NaN and infinities as IEEE-754 does. Error feedback encodes here what must be finite."""
        return self._is_carried(context) and not self.error_feedback

    def reduce(self, x: jax.Array, state: Arrays, context: Context) -> LeafReduction:
        if not self._is_carried(context):
            return (yield from super().reduce(x, state, context))
        x = self.with_memory(x, state)
        sent = x
        if self.error_feedback:
            fields = self.propose_fields()
            agreed = yield Message(MAX, self.propose(x), fields, fields)
            context = dataclasses.replace(context, agreed=agreed)
            # What a word stands for becomes the same word again: the block's largest number keeps its exponent.
            sent = self.decode(self.encode(x, state, context)[0], context)
        narrow = Narrow(self.bits, self.block, ROUNDINGS[self.stochastic], self.seed)
        fields = self.fields(context, False)
        total = yield Message(SUM, {"words": sent}, fields, fields, narrow=narrow)
        return self.mean(total["words"], context.workers), self.remember(x - sent, state)

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

    def _is_carried(self, context: Context) -> bool:
        return self.block == context.wire_block

    def _decoded(self, payload: Arrays, context: Context, shift: int | jax.Array) -> jax.Array:
        words, exponents = payload["words"], context.agreed["exponents"]
        y = jnp_reference.dequantize(words, exponents, context.workers, self.block, bits=self.bits, shift=shift)
        return y.reshape(context.shape)

    def _shift(self, context: Context) -> int:
        return shifts(context.workers, 1, self.bits)[1]

    def _seed(self, context: Context) -> jax.Array:
        """s1 of this leaf in this step, the same on all workers: uint32[2]."""
        return jax.random.bits(context.shared_key, (2,), jnp.uint32)
