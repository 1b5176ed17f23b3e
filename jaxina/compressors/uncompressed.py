"""No compression: the baseline."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax

from jaxina.compressors.base import SUM, Arrays, Compressor, Context, Promise
from jaxina.compressors.packing import Field, floats


@dataclasses.dataclass(frozen=True, kw_only=True)
class Uncompressed(Compressor):
    """Sends float32 as it is. The other compressors are measured against it."""

    promise = Promise(
        title="none (float32)",
        paper="-",
        unbiased=True,
        error_feedback="needless",
        note="The collective in use does the sum: XLA's own in float32, jaxina's in block fixed point.",
    )
    kind = SUM
    carries_non_finite = True

    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        return {"values": x}, state

    def decode(self, payload: Arrays, context: Context) -> jax.Array:
        return payload["values"]

    def fields(self, context: Context, summed: bool) -> Mapping[str, Field]:
        return {"values": floats()}
