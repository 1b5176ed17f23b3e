"""float16 and bfloat16: every element rounded to 16 bits."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

import jax
import jax.numpy as jnp

from jaxina.compressors.base import GATHER, Arrays, Compressor, Context, Promise
from jaxina.compressors.packing import Field, floats
from jaxina.errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True, kw_only=True)
class HalfPrecision(Compressor):
    """Sends 16-bit floating point. Each worker receives all payloads and sums them in float32.

    Source: Micikevicius et al., ICLR 2018 (fp16); Kalamkar et al., 2019 (bf16).

    Attributes:
      format: "fp16" (11 bits of precision, up to 65504) or "bf16" (8 bits of precision, float32's range).
    """

    format: Literal["fp16", "bf16"] = "bf16"

    promise = Promise(
        title="fp16 / bf16",
        paper="Micikevicius et al., Mixed Precision Training, ICLR 2018; Kalamkar et al., A Study of BFLOAT16 for Deep "
        "Learning Training, 2019",
        unbiased=False,
        error_feedback="off",
        note="fp16 turns magnitudes of at least 65520 into infinity, and those below 2^-25 into zero.",
    )
    kind = GATHER
    carries_non_finite = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.format not in ("fp16", "bf16"):
            raise InvalidArgumentError(f"the format is fp16 or bf16, not {self.format!r}")

    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        return {"values": x.astype(jnp.float16 if self.format == "fp16" else jnp.bfloat16)}, state

    def decode(self, payload: Arrays, context: Context) -> jax.Array:
        return payload["values"].astype(jnp.float32)

    def fields(self, context: Context, summed: bool) -> Mapping[str, Field]:
        return {"values": floats()}
