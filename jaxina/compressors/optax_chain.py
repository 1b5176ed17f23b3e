"""A compressor as an optax gradient transformation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax

from jaxina.compressors.base import Compressor
from jaxina.compressors.partitioned import Partitioned
from jaxina.compressors.registry import chosen

if TYPE_CHECKING:
    import optax


def all_reduce_mean(
    compressor: Compressor | str,
    axis_name: Any,
    seed: int = 0,
    learning_rate: float | Callable[[Any], Any] | None = None,
    mesh: jax.sharding.Mesh | None = None,
) -> optax.GradientTransformation:
    """Makes an optax transformation that averages gradients over the workers, compressed.

    It goes first in an `optax.chain`. Its state has the form of optimizers' states: a tree like the parameters for each
    kind of array. So `optax.tree_map_params` finds them, for instance to derive shardings. An array may have another
    shape than its parameter (PowerSGD's Q).

    Args:
      compressor: the compressor, or its spec string.
      axis_name: the mapped axis of the workers. None for a single worker.
      seed: seed of the compressor's random numbers, the same on every worker.
      learning_rate: the rate, or the schedule, that the optimizer after it has. Error feedback then accumulates what it
        owes times the rate of its step, as published; see `Compressor.update`. With a constant rate nothing changes.
      mesh: of a program of `jax.jit` with `NamedSharding`, outside `jax.shard_map`. Then `axis_name` is an axis of the
        mesh, `update` takes gradients [workers, ...], as `per_worker` makes them, and the state has an axis of workers,
        too; see `Partitioned`.

    Returns:
      A transformation. Its state differs between workers if the compressor has a memory. Its `update` raises what
      `Compressor.update` raises, or with a mesh what `Partitioned.update` raises.

    Raises:
      InvalidArgumentError: the spec string is not allowed, or the mesh has no such axis.
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

      Shardings of the state from those of the parameters, with `PartitionSpec`:

      >>> from jax.sharding import PartitionSpec as P
      >>> optax.tree_map_params(
      ...     optimizer,
      ...     lambda array, param, spec: spec if array.shape == param.shape else P(),
      ...     state,
      ...     params,
      ...     P("model"),
      ...     transform_non_params=lambda _: P(),
      ... )[0]["leaves"]
      {'memory': P('model',)}
    """
    import optax

    made = chosen(compressor)
    partitioned = None if mesh is None else Partitioned(made, mesh, axis_name)

    def init(params: Any) -> dict[str, Any]:
        return (partitioned or made).init(params, jax.random.key(seed))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, dict[str, Any]]:
        rate = learning_rate(state["step"]) if callable(learning_rate) else learning_rate
        if partitioned is not None:
            return partitioned.update(updates, state, params=params, learning_rate=rate)
        return made.update(updates, state, axis_name, params=params, learning_rate=rate)

    return optax.GradientTransformation(init, update)
