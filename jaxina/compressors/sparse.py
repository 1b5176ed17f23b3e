"""Sparsification by magnitude: Top-k and a fixed threshold."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from jaxina.compressors.base import GATHER, Arrays, Compressor, Context, Promise
from jaxina.compressors.packing import COUNT, Field, floats, integers
from jaxina.compressors.top_k import largest_places
from jaxina.errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sparse(Compressor):
    """A compressor whose payload has some of the elements, as "values", and their "indices"."""

    kind = GATHER

    def decode(self, payload: Arrays, context: Context) -> jax.Array:
        return scattered(payload, context)

    def add_decoded(self, total: jax.Array, payload: Arrays, context: Context) -> jax.Array:
        return added(total, payload)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TopK(Sparse):
    """Top-k: sends the elements of largest magnitude, and their indices.

    Of d elements it sends k = max(1, ceil(ratio d)).

    Source: Aji and Heafield, EMNLP 2017; with error feedback Stich et al., NeurIPS 2018.

    Attributes:
      ratio: share of the array's elements that is sent, above 0 and at most 1.
    """

    ratio: float = 0.01

    promise = Promise(
        title="Top-k",
        paper="Aji and Heafield, Sparse Communication for Distributed Gradient Descent, EMNLP 2017; Stich et al., "
        "Sparsified SGD with Memory, NeurIPS 2018",
        unbiased=False,
        error_feedback="on",
        note="Indices differ between workers, so values do not sum in an aggregator. An index takes log2 d bits.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ratio(self.ratio)

    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        return largest(x.reshape(-1), kept(self.ratio, context.size)), state

    def fields(self, context: Context, summed: bool) -> Mapping[str, Field]:
        return {"values": floats(), "indices": integers(0, context.size - 1)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Threshold(Sparse):
    """Sends all elements with a magnitude of at least `tau`, and their indices.

    Source: Strom, Interspeech 2015. That paper sends only the sign of each element and takes tau for its magnitude;
    here the values are sent as they are.

    Attributes:
      tau: the threshold, above 0.
    """

    tau: float = 0.01

    promise = Promise(
        title="threshold",
        paper="Strom, Scalable Distributed DNN Training Using Commodity GPU Cloud Computing, Interspeech 2015",
        unbiased=False,
        error_feedback="on",
        note="How much is sent varies with the gradients. Inside XLA the arrays have room for all elements. Without "
        "error feedback, an array whose values are all below tau would never be sent.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.tau < math.inf:
            raise InvalidArgumentError(f"tau must be above 0 and finite, not {self.tau}")

    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        flat = x.reshape(-1)
        return selected(flat, jnp.abs(flat) >= self.tau, context.size), state

    def fields(self, context: Context, summed: bool) -> Mapping[str, Field]:
        return counted_fields(context)


def check_ratio(ratio: float) -> None:
    """Raises InvalidArgumentError unless the ratio is above 0 and at most 1."""
    if not 0 < ratio <= 1:
        raise InvalidArgumentError(f"the ratio must be above 0 and at most 1, not {ratio}")


def kept(ratio: float, size: int) -> int:
    """Computes k = max(1, ceil(ratio size)).

    The product is rounded first, because 0.07 * 100 is above 7 in floating point.
    """
    return max(1, math.ceil(round(ratio * size, 6)))


def largest(flat: jax.Array, k: int) -> Arrays:
    """Picks the k elements of largest magnitude, the largest first; among equal ones those with lower indices first.

    All elements, where k is their number, come in the order of their indices: nothing has to be sorted then.
    """
    if k == flat.size:
        return {"values": flat, "indices": jnp.arange(k, dtype=jnp.int32)}
    indices = largest_places(flat, k)
    return {"values": flat[indices], "indices": indices}


def selected(flat: jax.Array, chosen: jax.Array, most: int) -> Arrays:
    """Picks the elements where `chosen` is true, the first `most` of them, in the order of their indices."""
    (indices,) = jnp.nonzero(chosen, size=most, fill_value=flat.size)
    return {
        COUNT: jnp.minimum(chosen.sum(dtype=jnp.int32), most),
        "values": flat.at[indices].get(mode="fill", fill_value=0),
        "indices": jnp.where(indices < flat.size, indices, 0).astype(jnp.int32),
    }


def scattered(payload: Arrays, context: Context) -> jax.Array:
    """Puts values at their indices, and zeros elsewhere. It adds, so that padding (0 at index 0) changes nothing."""
    return added(jnp.zeros(context.shape, jnp.float32), payload)


def added(total: jax.Array, payload: Arrays) -> jax.Array:
    """Adds values at their indices to an array of any shape."""
    return total.reshape(-1).at[payload["indices"]].add(payload["values"]).reshape(total.shape)


def counted_fields(context: Context) -> Mapping[str, Field]:
    """The fields of a payload with as many values and indices as its `COUNT` says."""
    return {
        COUNT: integers(0, context.size),
        "values": floats(counted=True),
        "indices": integers(0, context.size - 1, counted=True),
    }
