"""A ring all-reduce of 16-bit floating point: the partial sums are rounded to 16 bits at every hop."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from jaxina.compressors.base import ALL_TO_ALL, GATHER, Arrays, Context, Message, Promise
from jaxina.compressors.half_precision import HalfPrecision
from jaxina.compressors.messages import LeafReduction
from jaxina.compressors.rounding import from_rows, parts_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class HalfPrecisionRing(HalfPrecision):
    """What a ring of workers makes of an all-reduce of fp16 or bf16, bit for bit.

    The array is cut into n parts of equal length. Part w begins at worker w + 1, goes on from worker to worker, and
    ends at worker w. Each worker adds its own part, and rounds the sum to 16 bits. So there are n roundings of each
    element, and small gradients vanish beside a large partial sum. Then the n sums go to all workers.

    Here worker w gets all n parts in an all-to-all, and adds them in that order. So the bits and the bytes are those of
    the ring: 2 (n - 1) parts in each direction.

    Error feedback owes the rounding of the own gradient, and the roundings of the sum of the own part.

    Source: Patarasuk and Yuan, Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations, JPDC 2009 (the
    ring). Formats as `HalfPrecision`.
    """

    promise = Promise(
        title="ring of fp16 / bf16",
        paper="Patarasuk and Yuan, Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations, JPDC 2009",
        unbiased=False,
        error_feedback="off",
        note="The usual all-reduce of 16-bit gradients. Partial sums are rounded at each of n - 1 hops. With fp16 a "
        "sum of at least 65520 is infinite.",
    )
    kind = ALL_TO_ALL

    def reduce(self, x: jax.Array, state: Arrays, context: Context) -> LeafReduction:
        x = self.with_memory(x, state)
        payload, _ = self.encode(x, state, context)
        fields = self.fields(context, False)
        received = yield Message(ALL_TO_ALL, {"values": parts_of(payload["values"], context.workers)}, fields, fields)
        hops = jnp.roll(received["values"], -(context.worker + 1), axis=0)  # the own part is the last
        # The carry of a loop has 16 bits. XLA may keep more between two additions that it sees together.
        total, _ = jax.lax.scan(lambda partial, own: (partial + own, None), hops[0], hops[1:])
        gathered = yield Message(GATHER, {"values": total}, fields, fields)
        if self.error_feedback:
            lost = hops.astype(jnp.float32).sum(axis=0) - total.astype(jnp.float32)
            errors = parts_of(x - self.decode(payload, context), context.workers).at[context.worker].add(lost)
            state = self.remember(from_rows(errors, context.shape, context.size), state)
        total = from_rows(gathered["values"], context.shape, context.size).astype(jnp.float32)
        return self.mean(total, context.workers), state
