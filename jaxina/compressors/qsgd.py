"""QSGD: stochastic quantization relative to the norm of a bucket."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from jaxina.compressors.base import GATHER, Arrays, Compressor, Context, Promise
from jaxina.compressors.packing import Field, floats, integers
from jaxina.compressors.rounding import from_rows, rows_of, stochastic_round
from jaxina.errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True, kw_only=True)
class QSGD(Compressor):
    """QSGD: sends the Euclidean norm of each bucket, and each element as a signed level.

    An element's level is ``s |x| / norm``, rounded at random to one of the two neighbouring integers, with the sign of
    x. The variance of a bucket of d elements is at most ``min(d / s^2, sqrt(d) / s) |x|^2``.

    Source: Alistarh et al., NIPS 2017, section 3.1 and lemma 3.1.

    Attributes:
      levels: s, at least 1. A level is an integer from -s to s.
      bucket: d, how many elements share a norm, at least 1.
    """

    levels: int = 64
    bucket: int = 512

    promise = Promise(
        title="QSGD",
        paper="Alistarh et al., QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding, NIPS 2017",
        unbiased=True,
        error_feedback="off",
        note="A bucket of zeros stays zero. Norms are computed relative to the bucket's maximum, so squares neither "
        "overflow nor vanish. A norm beyond float32's range counts as float32's largest number, which biases that "
        "bucket towards zero. Levels are packed at a fixed length, not Elias coded.",
    )
    kind = GATHER

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.levels < 1 or self.bucket < 1:
            raise InvalidArgumentError(f"levels and bucket must be at least 1, not {self.levels} and {self.bucket}")
        if self.ef and min(self.bucket / self.levels**2, self.bucket**0.5 / self.levels) >= 1:
            raise InvalidArgumentError(
                f"{self.levels} levels are too few for error feedback in buckets of {self.bucket}"
            )

    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        rows = rows_of(x, self.bucket)
        largest = jnp.abs(rows).max(axis=1, keepdims=True)
        relative = rows / jnp.where(largest > 0, largest, 1)
        ratio = jnp.linalg.norm(relative, axis=1, keepdims=True)  # norm / largest, in [1, sqrt(d)]
        norm = jnp.minimum(largest * ratio, jnp.finfo(jnp.float32).max)
        share = jnp.abs(relative) / jnp.where(ratio > 0, ratio, 1)
        levels = jnp.minimum(stochastic_round(share * self.levels, context.private_key), self.levels)
        signed = (levels * jnp.sign(rows)).astype(jnp.int32)
        return {"norm": norm[:, 0], "levels": signed.reshape(-1)[: x.size]}, state

    def decode(self, payload: Arrays, context: Context) -> jax.Array:
        shares = rows_of(payload["levels"], self.bucket).astype(jnp.float32) / self.levels
        return from_rows(shares * payload["norm"][:, None], context.shape, context.size)

    def fields(self, context: Context, summed: bool) -> Mapping[str, Field]:
        return {"norm": floats(), "levels": integers(-self.levels, self.levels)}
