"""Ok-topk: a sparse all-reduce whose bytes do not grow with the number of workers."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from jaxina.compressors.base import ALL_TO_ALL, GATHER, Arrays, Compressor, Context, Message, Promise
from jaxina.compressors.messages import LeafReduction
from jaxina.compressors.packing import COUNT, Field, floats, integers
from jaxina.compressors.sparse import check_ratio, counted_fields, kept, scattered, selected
from jaxina.compressors.top_k import largest_places
from jaxina.errors import InvalidArgumentError

_StateUpdate = Generator[Message, Arrays, Arrays]
"""Rounds of messages that end with the next state."""

_QUANTILES = 63
"""How many positions tell where a worker's elements are. Regions for any number of workers are cut between them."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class OkTopK(Compressor):
    """Ok-topk: each worker adds up a region of the array, and of the sums only the largest go to all.

    Top-k gathers k elements of each worker, so what a worker receives grows with n. Here, of d elements,
    k = max(1, ceil(ratio d)):

    1. A worker chooses the elements of at least the local threshold, about k. It sends each to the worker whose region
       has it (all-to-all).
    2. Worker w adds up what it gets. The sums of at least the global threshold, about k in all regions together, go to
       all workers (all-gather).

    So a worker sends and receives less than 6 k numbers, values and indices. Elements that are not among the k largest
    sums stay in the memory of those workers that have sent them.

    Every `reuse` steps the thresholds are computed anew, so that exactly k elements are at least as large (or more, if
    some are equal); in between they stay. Every `regions` steps the regions are cut anew, so that each has as many of
    the chosen elements. Workers agree on both by gathering a few numbers. An element beyond 2 k chosen ones waits for
    the next step: XLA's arrays have a fixed size.

    Source: Li and Hoefler, PPoPP 2022, algorithms 1 and 2. Regions are cut between 63 quantiles of each worker's chosen
    indices, not between their n - 1 quantiles. The paper's balancing before the all-gather is left out; it moves bytes
    from some workers to others.

    Attributes:
      ratio: share of the array's elements that is sent, above 0 and at most 1.
      reuse: for how many steps thresholds stay, at least 1.
      regions: for how many steps regions stay, at least 1.
    """

    ratio: float = 0.01
    reuse: int = 32
    regions: int = 64

    promise = Promise(
        title="Ok-topk",
        paper="Li and Hoefler, Near-Optimal Sparse Allreduce for Distributed Deep Learning, PPoPP 2022",
        unbiased=False,
        error_feedback="on",
        note="What a worker receives does not grow with the number of workers, as it does with Top-k. About k elements "
        "are sent, since thresholds are reused. The table counts a step that computes them again, which is one in 32.",
    )
    kind = ALL_TO_ALL

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ratio(self.ratio)
        if self.reuse < 1 or self.regions < 1:
            raise InvalidArgumentError(f"reuse and regions must be at least 1, not {self.reuse} and {self.regions}")

    def init_leaf(self, x: jax.Array, key: jax.Array) -> Arrays:
        even = np.linspace(0, x.size, _QUANTILES + 2)[1:-1].astype(np.int32)
        # Arrays of their own: a step may be given the state's memory (`donate_argnums`), and each only once.
        thresholds = {name: jnp.zeros((), jnp.float32) for name in ("threshold", "global_threshold")}
        return {**thresholds, "quantiles": jnp.asarray(even)}

    def reduce(self, x: jax.Array, state: Arrays, context: Context) -> LeafReduction:
        x = self.with_memory(x, state)
        chosen, state = self.encode(x, state, context)
        state = yield from self._cut(chosen, state, context)
        received = yield Message(ALL_TO_ALL, _in_parts(chosen, _edges(state["quantiles"], context)), *_twice(context))
        sums = scattered(received, context).reshape(-1)
        state = yield from self._agree(sums, state, context)
        largest = selected(sums, _at_least(sums, state["global_threshold"]), self._most(context))
        gathered = yield Message(GATHER, largest, *_twice(context))
        total = scattered(gathered, context)
        arrived = _places(chosen, context) & _places(gathered, context)
        return self.mean(total, context.workers), self.remember(jnp.where(arrived, 0, x), state)

    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        """Chooses this worker's elements, for all regions together."""
        flat = x.reshape(-1)
        threshold = self._threshold(flat, state["threshold"], context)
        chosen = selected(flat, _at_least(flat, threshold), self._most(context))
        return chosen, {**state, "threshold": threshold}

    def decode(self, payload: Arrays, context: Context) -> jax.Array:
        return scattered(payload, context)

    def fields(self, context: Context, summed: bool) -> Mapping[str, Field]:
        return counted_fields(context)

    def _kept(self, context: Context) -> int:
        return kept(self.ratio, context.size)

    def _most(self, context: Context) -> int:
        return min(2 * self._kept(context), context.size)

    def _due(self, threshold: jax.Array, context: Context) -> jax.Array:
        return (jnp.asarray(context.step) % self.reuse == 0) | (threshold == 0)

    def _threshold(self, values: jax.Array, before: jax.Array, context: Context) -> jax.Array:
        """The k-th largest magnitude, if it is due, else the threshold before."""

        def anew(values: jax.Array, before: jax.Array) -> jax.Array:
            return jnp.abs(values[largest_places(values, self._kept(context))[-1]]) + 0 * before

        def as_before(values: jax.Array, before: jax.Array) -> jax.Array:
            return before + 0 * values[0]

        # Both branches depend on both operands, so that their results vary over the same axes.
        return jax.lax.cond(self._due(before, context), anew, as_before, values, before)

    def _cut(self, chosen: Arrays, state: Arrays, context: Context) -> _StateUpdate:
        """Tells all workers where this worker's elements are, if it is due: the mean of their quantiles."""
        due = jnp.asarray(context.step) % self.regions == 0
        count = chosen[COUNT]
        ranks = jnp.arange(1, _QUANTILES + 1) * (count / (_QUANTILES + 1))
        own = chosen["indices"][ranks.astype(jnp.int32)]
        own = jnp.where(count > 0, own, state["quantiles"])
        fields = {COUNT: integers(0, _QUANTILES), "quantiles": integers(0, context.size, counted=True)}
        message = {COUNT: jnp.where(due, _QUANTILES, 0), "quantiles": own}
        gathered = yield Message(GATHER, message, fields, fields)
        mean = (gathered["quantiles"] // context.workers).sum(axis=0)  # no sum exceeds int32
        return {**state, "quantiles": jnp.where(due, mean, state["quantiles"])}

    def _agree(self, sums: jax.Array, state: Arrays, context: Context) -> _StateUpdate:
        """Computes the k-th largest of all workers' sums, if it is due, from the k largest of each."""
        before, k = state["global_threshold"], self._kept(context)
        due = self._due(before, context)

        def largest(sums: jax.Array, before: jax.Array) -> jax.Array:
            return jnp.abs(sums[largest_places(sums, k)]) + 0 * before

        def none(sums: jax.Array, before: jax.Array) -> jax.Array:
            return jnp.zeros(k) + 0 * (before + sums[0])

        own = jax.lax.cond(due, largest, none, sums, before)
        message = {COUNT: jnp.where(due, (own > 0).sum(), 0).astype(jnp.int32), "magnitudes": own}
        fields = {COUNT: integers(0, k), "magnitudes": floats(counted=True)}
        gathered = yield Message(GATHER, message, fields, fields)
        threshold = self._threshold(gathered["magnitudes"].reshape(-1), before, context)
        return {**state, "global_threshold": threshold}


def _at_least(values: jax.Array, threshold: jax.Array) -> jax.Array:
    magnitudes = jnp.abs(values)
    return (magnitudes >= threshold) & (magnitudes > 0)


def _twice(context: Context) -> tuple[Mapping[str, Field], Mapping[str, Field]]:
    return counted_fields(context), counted_fields(context)


def _edges(quantiles: jax.Array, context: Context) -> jax.Array:
    """Where the n regions begin, and where the last one ends: int32[n + 1]. All regions have as many quantiles."""
    ends = jnp.concatenate([jnp.zeros(1, jnp.int32), quantiles, jnp.full(1, context.size, jnp.int32)])
    place = np.arange(1, context.workers) * ((_QUANTILES + 1) / context.workers)
    below, share = place.astype(np.int32), jnp.asarray(place % 1, jnp.float32)
    between = ends[below] + (share * (ends[below + 1] - ends[below])).astype(jnp.int32)
    return jnp.concatenate([ends[:1], between, ends[-1:]])


def _in_parts(chosen: Arrays, edges: jax.Array) -> Arrays:
    """Cuts elements, in ascending order of their indices, into the regions that `edges` limits: [n, ...]."""
    most = chosen["indices"].size
    indices = jnp.where(jnp.arange(most) < chosen[COUNT], chosen["indices"], edges[-1])
    # Not jnp.searchsorted, which JAX 0.10.2 cannot trace where a mesh has axes that are not manual.
    ends = (indices < edges[:, None]).sum(axis=1)
    counts = ends[1:] - ends[:-1]
    places = jnp.minimum(ends[:-1, None] + jnp.arange(most), most - 1)
    used = jnp.arange(most) < counts[:, None]
    parts = {name: jnp.where(used, chosen[name][places], 0) for name in ("values", "indices")}
    return {COUNT: counts.astype(jnp.int32), **parts}


def _places(payload: Arrays, context: Context) -> jax.Array:
    """Which elements are sent: bool, of the leaf's shape. Payloads may have an axis of workers."""
    used = jnp.arange(payload["indices"].shape[-1]) < payload[COUNT][..., None]
    found = jnp.zeros(context.size, bool).at[payload["indices"]].max(used)
    return found.reshape(context.shape)
