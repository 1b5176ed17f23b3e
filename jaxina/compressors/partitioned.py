"""Compressors in programs of `jax.jit` over arrays with `NamedSharding` (FSDP), without a `jax.shard_map` of one's own.

In such a program an array is global, and XLA's partitioner sums gradients where it must. A compressor needs each
worker's own gradient, so a program computes these, as one array with an axis of workers::

    gradients_of = compressors.per_worker(jax.grad(loss), mesh, "data")
    optimizer = optax.chain(compressors.all_reduce_mean("topk:0.01", "data", mesh=mesh), optax.adam(1e-3))

    @jax.jit
    def step(params, state, batch):
        gradients = gradients_of(params, batch)  # of each parameter: [workers, ...], and worker w has part w
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

docs/compressors.md has a whole program. Parameters may be sharded over any axes of the mesh. Axes that are not the
workers' stay with the partitioner (tensor parallelism).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxina.compressors import feedback
from jaxina.compressors.base import Compressor
from jaxina.errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True)
class Partitioned:
    """A compressor whose workers are one or more axes of a mesh, called from outside `jax.shard_map`.

    Attributes:
      compressor: the compressor.
      mesh: the mesh of the program's arrays.
      axis_name: the workers' axis of the mesh, or a tuple of axes.

    Raises:
      InvalidArgumentError: the mesh has no such axis.
    """

    compressor: Compressor
    mesh: Mesh
    axis_name: str | tuple[str, ...]

    def __post_init__(self) -> None:
        _workers(self.mesh, self.axis_name)

    def init(self, params: Any, key: jax.Array) -> dict[str, Any]:
        """Makes the state before the first step, of all workers.

        Args:
          params: pytree of arrays, with any sharding over the mesh.
          key: a `jax.random.key`.

        Returns:
          As `Compressor.init`, but the arrays in ``leaves`` are [workers, ...], and worker w has part w.
        """

        def own(params: Any, key: jax.Array) -> dict[str, Any]:
            state = self.compressor.init(params, key)
            return state | {"leaves": _stacked(_varying(state["leaves"], self.axis_name))}

        mapped = _mapped(own, self.mesh, self.axis_name, (P(), P()), self._state_specs)
        return mapped(_whole(params, self.mesh, self.axis_name), key)

    def update(
        self,
        gradients: Any,
        state: dict[str, Any],
        *,
        params: Any = None,
        learning_rate: jax.Array | float | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Averages the workers' gradients, compressed.

        Args:
          gradients: pytree of floating-point arrays [workers, ...], as `per_worker` makes them.
          state: of all workers.
          params: as for `Compressor.update`, without an axis of workers.
          learning_rate: as for `Compressor.update`.

        Returns:
          The mean, without the axis of workers, and the next state. Each worker has the whole mean. Where axes of the
          mesh are `AxisType.Explicit` and `params` are given, the mean is sharded as they are.

        Raises:
          InvalidArgumentError: a gradient has no axis of the workers, or what `Compressor.update` says.
        """
        self._check(gradients)
        feedback.check_rate(learning_rate)

        def own(gradients: Any, state: dict[str, Any], params: Any, rate: Any) -> tuple[Any, dict[str, Any]]:
            mine = state | {"leaves": _first(state["leaves"])}
            mean, following = self.compressor.update(
                _first(gradients), mine, self.axis_name, params=params, learning_rate=rate
            )
            return mean, following | {"leaves": _stacked(following["leaves"])}

        mapped = _mapped(
            own,
            self.mesh,
            self.axis_name,
            (P(self.axis_name), self._state_specs, P(), P()),
            (P(), self._state_specs),
        )
        mean, following = mapped(gradients, state, _whole(params, self.mesh, self.axis_name), learning_rate)
        return mean if params is None else jax.tree.map(_as_sharded, mean, params), following

    @property
    def _state_specs(self) -> dict[str, P]:
        return {"key": P(), "step": P(), "leaves": P(self.axis_name)}

    def _check(self, gradients: Any) -> None:
        workers = _workers(self.mesh, self.axis_name)
        for path, x in jax.tree.leaves_with_path(gradients):
            if jnp.ndim(x) == 0 or x.shape[0] != workers:
                raise InvalidArgumentError(
                    f"the gradient{jax.tree_util.keystr(path)} has the shape {jnp.shape(x)}, but its first axis must "
                    f"be the {workers} workers of {self.axis_name!r}: compute it with compressors.per_worker. The "
                    "gradient of a whole batch has been summed over the workers already"
                )


def per_worker(f: Callable[..., Any], mesh: Mesh, axis_name: str | tuple[str, ...]) -> Callable[..., Any]:
    """Makes a function that calls `f` on each worker, with the worker's part of the batch.

    Args:
      f: a function of the parameters, and of one or more pytrees of arrays of a batch; for instance
        `jax.value_and_grad` of a loss. What it returns is a pytree of arrays. It sees a worker's part of the batch, and
        what it computes from it alone: a gradient is not summed over workers.
      mesh: the mesh of the program's arrays.
      axis_name: the workers' axis of the mesh, or a tuple of axes.

    Returns:
      A function of the same arguments. Arrays of the batch are [batch, ...], and their first axis is cut into equal
      parts for the workers. Results have a first axis of workers: [workers, ...], and worker w has part w. Parameters
      that are sharded over the workers are gathered. Random numbers that differ between workers are made from keys as a
      part of the batch: ``jax.random.split(key, workers)``.

    Raises:
      InvalidArgumentError: the mesh has no such axis; or, when the function is called, the first axis of an array of
        the batch is not a multiple of the number of workers.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxina import compressors
      >>> mesh = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
      >>> gradients_of = compressors.per_worker(jax.grad(lambda w, x: (w * x).sum()), mesh, "data")
      >>> gradients_of(jnp.float32(2), jnp.float32([3, 4])).tolist()
      [7.0]
    """
    workers = _workers(mesh, axis_name)

    def own(params: Any, batch: tuple[Any, ...]) -> Any:
        return _stacked(f(_varying(params, axis_name), *batch))

    def on_each(params: Any, *batch: Any) -> Any:
        for path, x in jax.tree.leaves_with_path(batch):
            if jnp.ndim(x) == 0 or x.shape[0] % workers:
                raise InvalidArgumentError(
                    f"the array batch{jax.tree_util.keystr(path)} has the shape {jnp.shape(x)}, whose first axis "
                    f"cannot be cut into equal parts for the {workers} workers of {axis_name!r}"
                )
        mapped = _mapped(own, mesh, axis_name, (P(), P(axis_name)), P(axis_name))
        return mapped(_whole(params, mesh, axis_name), batch)

    return on_each


def _workers(mesh: Mesh, axis_name: str | tuple[str, ...]) -> int:
    missing = [name for name in _names(axis_name) if name not in mesh.shape]
    if missing:
        raise InvalidArgumentError(
            f"the mesh has the axes {', '.join(mesh.axis_names)}, and not {', '.join(map(str, missing))}"
        )
    return math.prod(mesh.shape[name] for name in _names(axis_name))


def _names(axis_name: str | tuple[str, ...]) -> tuple[str, ...]:
    return axis_name if isinstance(axis_name, tuple) else (axis_name,)


def _mapped(f: Callable[..., Any], mesh: Mesh, axis_name: str | tuple[str, ...], ins: Any, outs: Any) -> Any:
    """`jax.shard_map` over the workers alone. Other axes stay with the partitioner, which needs a `jax.jit`."""
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=ins, out_specs=outs, axis_names=set(_names(axis_name))))


def _varying(tree: Any, axis_name: str | tuple[str, ...]) -> Any:
    return jax.tree.map(lambda x: jax.lax.pcast(x, axis_name, to="varying"), tree)


def _stacked(tree: Any) -> Any:
    return jax.tree.map(lambda x: jnp.asarray(x)[None], tree)


def _first(tree: Any) -> Any:
    return jax.tree.map(lambda x: x[0], tree)


def _explicit(x: Any) -> bool:
    """Whether the type of `x` has its sharding. Otherwise the partitioner moves it without being asked."""
    return any(kind == jax.sharding.AxisType.Explicit for kind in jax.typeof(x).sharding.mesh.axis_types)


def _whole(tree: Any, mesh: Mesh, axis_name: str | tuple[str, ...]) -> Any:
    """Gathers arrays that are sharded over the workers."""
    ours = set(_names(axis_name))

    def whole(x: Any) -> Any:
        if not _explicit(x):
            return x
        kept = (_others(entry, ours) for entry in jax.typeof(x).sharding.spec)
        return jax.sharding.reshard(x, NamedSharding(mesh, P(*kept)))

    return jax.tree.map(whole, tree)


def _others(entry: Any, ours: set[str]) -> Any:
    """An entry of a `PartitionSpec` without our axes."""
    names = tuple(name for name in (entry if isinstance(entry, tuple) else (entry,)) if name not in ours)
    return names[0] if len(names) == 1 else names or None


def _as_sharded(mean: Any, param: Any) -> Any:
    return jax.sharding.reshard(mean, jax.typeof(param).sharding) if _explicit(param) else mean
