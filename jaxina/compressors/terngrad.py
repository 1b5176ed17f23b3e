"""TernGrad: every element becomes -1, 0 or 1 times a common scale."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from jaxina.compressors.base import SUM, Arrays, Compressor, Context, Promise
from jaxina.compressors.packing import Field, floats, integers
from jaxina.compressors.random_numbers import uniform
from jaxina.errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True, kw_only=True)
class TernGrad(Compressor):
    """TernGrad: sends ``sign(x) b``, where b is 1 with probability ``|x| / s`` and else 0; s is the largest ``|x|``.

    s is the maximum over the array and over the workers (the paper's section 3.3). Since all workers share it, the
    ternary values sum as integers.

    Source: Wen et al., NIPS 2017.

    Attributes:
      clip: values are first clipped to this many standard deviations of the array (the paper uses 2.5). 0 does not
        clip.
    """

    clip: float = 0.0

    promise = Promise(
        title="TernGrad",
        paper="Wen et al., TernGrad: Ternary Gradients to Reduce Communication in Distributed Deep Learning, NIPS 2017",
        unbiased=True,
        error_feedback="no",
        note="Biased with `clip`. The variance grows with max|x| / mean|x|.",
    )
    kind = SUM

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.clip < math.inf:
            raise InvalidArgumentError(f"clip must not be negative, and finite, but is {self.clip}")

    def propose(self, x: jax.Array) -> Arrays:
        return {"scale": jnp.abs(self._clipped(x)).max()}

    def propose_fields(self) -> Mapping[str, Field]:
        return {"scale": floats()}

    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        scale = context.agreed["scale"]
        clipped = self._clipped(x)
        probability = jnp.abs(clipped) / jnp.where(scale > 0, scale, 1)
        chosen = uniform(context.private_key, x.shape) < probability
        return {"signs": jnp.where(chosen, jnp.sign(clipped), 0).astype(jnp.int32)}, state

    def decode(self, payload: Arrays, context: Context) -> jax.Array:
        return payload["signs"].astype(jnp.float32) * context.agreed["scale"]

    def fields(self, context: Context, summed: bool) -> Mapping[str, Field]:
        most = context.workers if summed else 1
        return {"signs": integers(-most, most)}

    def _clipped(self, x: jax.Array) -> jax.Array:
        if not self.clip:
            return x
        bound = self.clip * jnp.std(x)
        return jnp.clip(x, -bound, bound)
