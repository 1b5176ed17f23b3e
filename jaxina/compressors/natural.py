"""Natural compression: random rounding to a power of two."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from jaxina.compressors.base import GATHER, Arrays, Compressor, Context, Promise
from jaxina.compressors.packing import Field, integers
from jaxina.compressors.random_numbers import uniform

_LARGEST = 254  # the exponent field of float32's largest powers of two


@dataclasses.dataclass(frozen=True, kw_only=True)
class Natural(Compressor):
    """Natural compression: ``|x| = 2^a (1 + t)`` becomes 2^(a+1) with probability t, else 2^a. The sign stays.

    It sends the exponent field of float32 and the sign: 9 bits. The variance is at most ``|x|^2 / 8``.

    Source: Horvath et al., MSML 2022 (arXiv:1905.10988).
    """

    promise = Promise(
        title="natural compression",
        paper="Horvath et al., Natural Compression for Distributed Deep Learning, MSML 2022 (arXiv:1905.10988)",
        unbiased=True,
        error_feedback="off",
        note="Magnitudes above 2^127 are rounded down to it, and those below 2^-126 to zero.",
    )
    kind = GATHER

    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
        exponent = ((bits >> 23) & 0xFF).astype(jnp.int32)
        fraction = (bits & 0x7FFFFF).astype(jnp.float32) * 2.0**-23
        up = uniform(context.private_key, x.shape) < fraction
        rounded = jnp.minimum(exponent + up.astype(jnp.int32), _LARGEST)
        magnitude = jnp.where(exponent > 0, rounded, 0)
        return {"powers": jnp.where(x < 0, -magnitude, magnitude).astype(jnp.int16)}, state

    def decode(self, payload: Arrays, context: Context) -> jax.Array:
        powers = payload["powers"].astype(jnp.int32)
        bits = (jnp.abs(powers).astype(jnp.uint32) << 23) | jnp.where(powers < 0, jnp.uint32(1 << 31), jnp.uint32(0))
        return jax.lax.bitcast_convert_type(bits, jnp.float32)

    def fields(self, context: Context, summed: bool) -> Mapping[str, Field]:
        return {"powers": integers(-_LARGEST, _LARGEST)}
