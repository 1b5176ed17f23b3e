"""A compressor as an optax gradient transformation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax

from jaxina.compressors.base import Compressor
from jaxina.compressors.registry import get

if TYPE_CHECKING:
    import optax


def all_reduce_mean(compressor: Compressor | str, axis_name: Any, seed: int = 0) -> optax.GradientTransformation:
    """Makes an optax transformation that averages gradients over the workers, compressed.

    It goes first in an `optax.chain`.

    Args:
      compressor: the compressor, or its spec string.
      axis_name: the mapped axis of the workers. None for a single worker.
      seed: seed of the compressor's random numbers, the same on every worker.

    Returns:
      A transformation. Its state differs between workers if the compressor has a memory. Its `update` raises what
      `Compressor.update` raises.

    Raises:
      InvalidArgumentError: the spec string is not allowed.
      ImportError: optax is not installed.

    Example:
      >>> import jax.numpy as jnp
      >>> import optax
      >>> from jaxina import compressors
      >>> optimizer = optax.chain(compressors.all_reduce_mean("topk:0.5", None), optax.sgd(0.1))
      >>> params = jnp.array([1.0, 1.0])
      >>> updates, state = optimizer.update(jnp.array([2.0, 1.0]), optimizer.init(params), params)
      >>> print(optax.apply_updates(params, updates))
      [0.8 1. ]
    """
    import optax

    chosen = get(compressor) if isinstance(compressor, str) else compressor

    def init(params: Any) -> dict[str, Any]:
        return chosen.init(params, jax.random.key(seed))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, dict[str, Any]]:
        del params
        return chosen.update(updates, state, axis_name)

    return optax.GradientTransformation(init, update)
