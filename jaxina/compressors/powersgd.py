"""PowerSGD: a low-rank approximation by one step of subspace iteration."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from jaxina.compressors.base import SUM, Arrays, Compressor, Context, Message, Promise
from jaxina.compressors.packing import Field, floats
from jaxina.compressors.rounds import LeafReduction
from jaxina.errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True, kw_only=True)
class PowerSGD(Compressor):
    """PowerSGD: sends each gradient matrix M as two thin matrices P and Q.

    One step is ``P = orthonormal(sum M Q)`` and then ``Q = sum M' P``; the mean gradient is ``P Q' / n``. Each step
    starts with the Q of the step before.

    A leaf is taken as a matrix: its last axis makes the columns, all other axes the rows. Leaves with one axis, and
    leaves that P and Q would not make smaller, are sent as they are.

    Source: Vogels et al., NeurIPS 2019, algorithm 1.

    Attributes:
      rank: r, how many columns P and Q have, at least 1.
    """

    rank: int = 4

    promise = Promise(
        title="PowerSGD",
        paper="Vogels et al., PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization, NeurIPS "
        "2019",
        unbiased=False,
        error_feedback="on",
        note="It takes two rounds of sums. P and Q are float32, which jaxina's aggregators sum in block fixed point.",
    )
    kind = SUM

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rank < 1:
            raise InvalidArgumentError(f"the rank must be at least 1, not {self.rank}")

    def init_leaf(self, x: jax.Array, key: jax.Array) -> Arrays:
        if not self._worthwhile(x.shape):
            return {}
        return {"q": jax.random.normal(key, (x.shape[-1], self.rank))}

    def reduce(self, x: jax.Array, state: Arrays, context: Context) -> LeafReduction:
        if not self._worthwhile(context.shape):
            return (yield from super().reduce(x, state, context))
        corrected = self.with_memory(x, state)
        matrix = corrected.reshape(-1, x.shape[-1])
        total = yield _floats(p=matrix @ state["q"])
        p, _ = jnp.linalg.qr(total["p"])
        own_q = matrix.T @ p
        total = yield _floats(q=own_q)
        mean_q = total["q"] / context.workers
        error = (matrix - p @ own_q.T).reshape(x.shape)
        return (p @ mean_q.T).reshape(x.shape), self.remember(error, {**state, "q": mean_q})

    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        """Computes both factors of this worker's leaf alone. With other workers, `reduce` sends one after the other."""
        if "q" not in state:
            return {"values": x}, state
        matrix = x.reshape(-1, x.shape[-1])
        p, _ = jnp.linalg.qr(matrix @ state["q"])
        return {"p": p, "q": matrix.T @ p}, state

    def decode(self, payload: Arrays, context: Context) -> jax.Array:
        if "values" in payload:
            return payload["values"]
        return (payload["p"] @ payload["q"].T).reshape(context.shape)

    def fields(self, context: Context, summed: bool) -> Mapping[str, Field]:
        return {name: floats() for name in (("p", "q") if self._worthwhile(context.shape) else ("values",))}

    def _worthwhile(self, shape: tuple[int, ...]) -> bool:
        rows, columns = math.prod(shape[:-1]), shape[-1] if shape else 1
        return len(shape) > 1 and self.rank * (rows + columns) < rows * columns and self.rank <= min(rows, columns)


def _floats(**arrays: jax.Array) -> Message:
    fields = {name: floats() for name in arrays}
    return Message(SUM, arrays, fields, fields)
