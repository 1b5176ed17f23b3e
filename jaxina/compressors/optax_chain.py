"""A compressor as an optax gradient transformation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax

from jaxina.compressors.base import Compressor
from jaxina.compressors.registry import get

if TYPE_CHECKING:
    import optax


def all_reduce_mean(compressor: Compressor | str, axis_name: Any, seed: int = 0) -> optax.GradientTransformation:
    """Averages gradients over workers, compressed; goes first in an `optax.chain`::

        optimizer = optax.chain(compressors.all_reduce_mean("topk:0.01", "workers"), optax.adam(1e-3))

    Args:
      compressor: the compressor, or its spec string.
      axis_name: the mapped axis of the workers; None for a worker alone.
      seed: of the compressor's random numbers, the same on every worker.

    Returns:
      A transformation whose state differs between workers where the compressor has a memory.
    """
    import optax

    chosen = get(compressor) if isinstance(compressor, str) else compressor

    def init(params: Any) -> dict[str, Any]:
        return chosen.init(params, jax.random.key(seed))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, dict[str, Any]]:
        del params
        return chosen.update(updates, state, axis_name)

    return optax.GradientTransformation(init, update)
