"""The three one-bit schemes: signSGD with majority vote, EF-signSGD and 1-bit SGD."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from jaxina.compressors.base import GATHER, SUM, Arrays, Compressor, Context, Promise
from jaxina.compressors.packing import Field, floats, integers
from jaxina.compressors.random_numbers import coins


@dataclasses.dataclass(frozen=True, kw_only=True)
class SignSGD(Compressor):
    """signSGD with majority vote: each worker sends signs. The result is the majority's sign: -1, 1, or 0 for a tie.

    Source: Bernstein et al., ICLR 2019.
    """

    promise = Promise(
        title="signSGD, majority vote",
        paper="Bernstein et al., signSGD with Majority Vote is Communication Efficient and Fault Tolerant, ICLR 2019",
        unbiased=False,
        error_feedback="no",
        note="The result has no magnitude, so the learning rate must fit it, or the optimizer must not depend on the "
        "scale. An element that is zero votes by a fair coin (there is one bit), so sparse gradients turn into noise.",
    )
    kind = SUM

    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        coin = coins(context.private_key, x.shape)
        positive = jnp.where(x == 0, coin, x > 0)
        return {"votes": positive.astype(jnp.int32)}, state

    def decode(self, payload: Arrays, context: Context) -> jax.Array:
        """Returns the number of votes for "positive"; `mean` makes the sign of it."""
        return payload["votes"].astype(jnp.float32)

    def mean(self, total: jax.Array, workers: int) -> jax.Array:
        return jnp.sign(2 * total - workers)

    def fields(self, context: Context, summed: bool) -> Mapping[str, Field]:
        return {"votes": integers(0, context.workers if summed else 1)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class EFSignSGD(Compressor):
    """EF-signSGD: the signs times the mean magnitude of the array, with error feedback.

    Source: Karimireddy et al., ICML 2019, algorithm 1.
    """

    promise = Promise(
        title="EF-signSGD",
        paper="Karimireddy et al., Error Feedback Fixes SignSGD and other Gradient Compression Schemes, ICML 2019",
        unbiased=False,
        error_feedback="on",
        note="Every worker has its own scale, so the signs do not sum in an aggregator. Zero counts as positive.",
    )
    kind = GATHER

    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        return {"scale": (jnp.abs(x) / x.size).sum(), "signs": (x >= 0).astype(jnp.uint8)}, state

    def decode(self, payload: Arrays, context: Context) -> jax.Array:
        return jnp.where(payload["signs"] == 1, payload["scale"], -payload["scale"])

    def fields(self, context: Context, summed: bool) -> Mapping[str, Field]:
        return {"scale": floats(), "signs": integers(0, 1)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneBitSGD(Compressor):
    """1-bit SGD: sends one bit per element, its sign. A bit decodes to the mean of the column's elements with that
    sign.

    A column holds the elements that belong to one output unit, which is one index of the array's last axis. An array
    with one axis is a single column.

    Source: Seide et al., Interspeech 2014.
    """

    promise = Promise(
        title="1-bit SGD",
        paper="Seide et al., 1-Bit Stochastic Gradient Descent and its Application to Data-Parallel Distributed "
        "Training of Speech DNNs, Interspeech 2014",
        unbiased=False,
        error_feedback="on",
        note="It sends two float32 for each column, which is expensive for arrays of few rows. Zero counts as "
        "positive.",
    )
    kind = GATHER

    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        columns = _columns(x)
        positive = columns >= 0
        return {
            "above": _mean_where(columns, positive),
            "below": _mean_where(columns, ~positive),
            "signs": positive.astype(jnp.uint8),
        }, state

    def decode(self, payload: Arrays, context: Context) -> jax.Array:
        return jnp.where(payload["signs"] == 1, payload["above"], payload["below"]).reshape(context.shape)

    def fields(self, context: Context, summed: bool) -> Mapping[str, Field]:
        return {"above": floats(), "below": floats(), "signs": integers(0, 1)}


def _columns(x: jax.Array) -> jax.Array:
    return x.reshape(-1, x.shape[-1] if x.ndim > 1 else 1)


def _mean_where(x: jax.Array, chosen: jax.Array) -> jax.Array:
    """The mean of each column's chosen elements; 0 if there are none. It divides first, because sums may overflow."""
    return jnp.where(chosen, x / jnp.maximum(chosen.sum(axis=0), 1), 0).sum(axis=0)
