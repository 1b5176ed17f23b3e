"""PowerSGD: a low-rank approximation by one step of subspace iteration."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from jaxina.compressors.base import SUM, Arrays, Compressor, Context, Message, Promise
from jaxina.compressors.messages import LeafReduction
from jaxina.compressors.packing import Field, floats
from jaxina.errors import InvalidArgumentError

_NOTHING = 2.0**-20
"""Columns of Q that are shorter than this, relative to the longest one, are float32's rounding errors."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PowerSGD(Compressor):
    """PowerSGD: sends each gradient matrix M as two thin matrices P and Q.

    One step is ``P = orthonormal(sum M Q)`` and then ``Q = sum M' P``; the mean gradient is ``P Q' / n``. Each step
    starts with the Q of the step before, its columns scaled to length 1. So the size of gradients does not matter: a
    product of two steps' gradients would leave float32's range. A column that is zero, or nearly so beside the longest,
    starts from new random numbers, because zero would stay zero in all later steps.

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
            return {"q": jnp.zeros((0, self.rank), jnp.float32)}
        return {"q": _unit_columns(jax.random.normal(key, (x.shape[-1], self.rank)))}

    def reduce(self, x: jax.Array, state: Arrays, context: Context) -> LeafReduction:
        if not self._worthwhile(context.shape):
            return (yield from super().reduce(x, state, context))
        corrected = self.with_memory(x, state)
        matrix = corrected.reshape(-1, x.shape[-1])
        total = yield _floats(p=matrix @ state["q"])
        p = _orthonormal(total["p"])
        own_q = matrix.T @ p
        total = yield _floats(q=own_q)
        mean_q = total["q"] / context.workers
        error = (matrix - p @ own_q.T).reshape(x.shape)
        next_q = _restarted(mean_q, context.shared_key)
        return (p @ mean_q.T).reshape(x.shape), self.remember(error, {**state, "q": next_q})

    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        """Computes both factors of this worker's leaf alone. With other workers, `reduce` sends one after the other."""
        if not self._worthwhile(context.shape):
            return {"values": x}, state
        matrix = x.reshape(-1, x.shape[-1])
        p = _orthonormal(matrix @ state["q"])
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


def _orthonormal(columns: jax.Array) -> jax.Array:
    """An orthonormal basis that spans the columns. They are scaled first, so that no square leaves float32's range."""
    basis, _ = jnp.linalg.qr(_over_largest(columns, axis=None))
    return basis


def _restarted(q: jax.Array, key: jax.Array) -> jax.Array:
    """Scales the columns to length 1, and draws those anew that hold nothing, or only what rounding left."""
    largest = jnp.abs(q).max(axis=0)
    fresh = _unit_columns(jax.random.normal(key, q.shape))
    return jnp.where(largest > _NOTHING * largest.max(), _unit_columns(q), fresh)


def _unit_columns(q: jax.Array) -> jax.Array:
    scaled = _over_largest(q, axis=0)
    return scaled / jnp.maximum(jnp.linalg.norm(scaled, axis=0), 1)  # a norm is 0, or at least 1


def _over_largest(x: jax.Array, axis: int | None) -> jax.Array:
    """Divides by the largest magnitude along `axis`; zeros stay zeros."""
    largest = jnp.abs(x).max(axis=axis, keepdims=True)
    return x / jnp.where(largest > 0, largest, 1)


def _floats(**arrays: jax.Array) -> Message:
    fields = {name: floats() for name in arrays}
    return Message(SUM, arrays, fields, fields)
