"""Deep gradient compression: Top-k, with the optimizer's momentum applied before it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from jaxina.compressors.base import Arrays, Context, Promise
from jaxina.compressors.packing import COUNT, Field
from jaxina.compressors.sparse import Sparse, check_ratio, counted_fields, kept, largest
from jaxina.errors import InvalidArgumentError

_WARM_UP_RATIO = 0.25  # of the first stage, as in the paper; each further stage sends a quarter of the one before


@dataclasses.dataclass(frozen=True, kw_only=True)
class DGC(Sparse):
    """Deep gradient compression: momentum correction, accumulation, Top-k, momentum factor masking, and a warm-up.

    ``u = momentum u + x`` and ``v = v + u``. The k elements of v with the largest magnitude are sent; there u and v
    become zero.

    Source: Lin et al., ICLR 2018, section 3.

    Attributes:
      ratio: share of the array's elements that is sent, above 0 and at most 1.
      momentum: the momentum of SGD, from 0 to below 1. The optimizer must then have none of its own.
      warmup: over how many steps the ratio goes down to `ratio`: from 25 %, in stages of equal length, each with a
        quarter of the ratio before. 0 starts with `ratio`.
    """

    ratio: float = 0.01
    momentum: float = 0.9
    warmup: int = 0

    promise = Promise(
        title="DGC",
        paper="Lin et al., Deep Gradient Compression: Reducing the Communication Bandwidth for Distributed Training, "
        "ICLR 2018",
        unbiased=False,
        error_feedback="own",
        note="It replaces the optimizer's momentum. Local gradient clipping is left to the user: put "
        "`optax.clip_by_global_norm` before it.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ratio(self.ratio)
        if not 0 <= self.momentum < 1 or self.warmup < 0:
            raise InvalidArgumentError(
                f"momentum must be in [0, 1) and warmup not negative, not {self.momentum} and {self.warmup}"
            )

    def init_leaf(self, x: jax.Array, key: jax.Array) -> Arrays:
        # Arrays of their own: a step may be given the state's memory (`donate_argnums`), and each only once.
        return {name: jnp.zeros(x.shape, jnp.float32) for name in ("unsent", *(["momentum"] if self.momentum else []))}

    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        velocity = self.momentum * state["momentum"] + x if self.momentum else x
        unsent = state["unsent"] + velocity
        payload = largest(unsent.reshape(-1), self._most(context.size))
        count = self._count(context.step, context.size)
        used = jnp.arange(payload["values"].size) < count
        payload = {COUNT: count} | {name: jnp.where(used, array, 0) for name, array in payload.items()}
        sent = jnp.where(used, payload["indices"], context.size)  # the last is no element

        def rest(array: jax.Array) -> jax.Array:
            return array.reshape(-1).at[sent].set(0, mode="drop").reshape(x.shape)

        return payload, {"unsent": rest(unsent)} | ({"momentum": rest(velocity)} if self.momentum else {})

    def fields(self, context: Context, summed: bool) -> Mapping[str, Field]:
        return counted_fields(context)

    def _stages(self) -> list[float]:
        """The ratios of the warm-up's stages: those of 25 %, 6.25 % and so on that are above `ratio`."""
        stages: list[float] = []
        while self.warmup and _WARM_UP_RATIO * 0.25 ** len(stages) > self.ratio:
            stages.append(_WARM_UP_RATIO * 0.25 ** len(stages))
        return stages

    def _most(self, size: int) -> int:
        return kept(max([self.ratio, *self._stages()]), size)

    def _count(self, step: jax.Array | int, size: int) -> jax.Array:
        stages = self._stages()
        counts = jnp.array([kept(ratio, size) for ratio in [*stages, self.ratio]], jnp.int32)
        if not stages:
            return counts[0]
        return counts[jnp.minimum(step * len(stages) // self.warmup, len(stages))]
