"""Three layouts of a training step over the devices. All compute the same step; they differ in which device holds what.

data    Every device holds all parameters and a part of the batch. One `pmean` averages the gradients (`jax.shard_map`).
fsdp    Every parameter is split over all devices. XLA's partitioner gathers it where it is needed (`jax.jit`).
tensor  Two devices split the heads and hidden units of each layer. The batch is split over the pairs (`jax.jit`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

NAMES = ("data", "fsdp", "tensor")
# For each layer, the dimension of its kernel that is split over the "model" axis.
_TENSOR = {"query": 1, "key": 1, "value": 1, "merge": 0, "up": 1, "down": 0}
Loss = Callable[[Any, jax.Array], jax.Array]


class Layout:
    """The mesh of one of the layouts in NAMES, over all devices, and the shardings that go with it.

    Raises:
      ValueError: the layout is "tensor" and the number of devices is odd.
    """

    def __init__(self, name: str):
        self.name = name
        count = jax.device_count()
        if name == "tensor":
            if count % 2:
                raise ValueError(f"tensor parallel takes pairs of devices; there are {count}")
            self.mesh = _mesh((count // 2, 2), ("data", "model"))
        else:
            self.mesh = _mesh((count,), ("data",))
        self.replicated = NamedSharding(self.mesh, P())
        self.batch = NamedSharding(self.mesh, P("data"))

    @property
    def batch_parts(self) -> int:
        return self.mesh.shape["data"]

    def shardings(self, parameters: Any) -> Any:
        """Returns the sharding of each parameter. `parameters` may be arrays or their shapes."""
        return jax.tree_util.tree_map_with_path(
            lambda path, leaf: NamedSharding(self.mesh, self._spec(jax.tree_util.keystr(path), leaf.shape)), parameters
        )

    def _spec(self, path: str, shape: tuple[int, ...]) -> P:
        if self.name == "fsdp":
            cut = [axis for axis, size in enumerate(shape) if size % self.mesh.size == 0]
            return P(*(None,) * cut[-1], "data") if cut else P()
        if self.name == "tensor" and len(shape) == 2:
            for layer, axis in _TENSOR.items():
                if f"'{layer}'" in path:
                    return P(*(None,) * axis, "model")
        return P()

    def place(self, batch: np.ndarray) -> jax.Array:
        """Returns the batch as a global array. Each process copies only its own rows to its devices."""
        return jax.make_array_from_callback(batch.shape, self.batch, lambda index: batch[index])

    def step(
        self, loss: Loss, optimizer: optax.GradientTransformation
    ) -> Callable[[Any, jax.Array], tuple[Any, jax.Array]]:
        """Returns a jitted function (state, batch) -> (state, loss). It donates the old state's buffers."""

        def update(state: Any, value: jax.Array, gradients: Any) -> tuple[Any, jax.Array]:
            updates, optimizer_state = optimizer.update(gradients, state["optimizer"], state["parameters"])
            return {
                "parameters": optax.apply_updates(state["parameters"], updates),
                "optimizer": optimizer_state,
            }, value

        def whole(state: Any, batch: jax.Array) -> tuple[Any, jax.Array]:
            return update(state, *jax.value_and_grad(loss)(state["parameters"], batch))

        def part(state: Any, batch: jax.Array) -> tuple[Any, jax.Array]:
            # "varying" parameters get each device's own gradients, which one pmean averages. For replicated parameters
            # JAX would insert a sum of its own for each gradient.
            local = jax.lax.pcast(state["parameters"], "data", to="varying")
            return update(state, *jax.lax.pmean(jax.value_and_grad(loss)(local, batch), "data"))

        if self.name != "data":
            return jax.jit(whole, donate_argnums=0)
        sharded = jax.shard_map(part, mesh=self.mesh, in_specs=(P(), P("data")), out_specs=(P(), P()))
        return jax.jit(sharded, donate_argnums=0)

    def mean_loss(self, loss: Loss) -> Callable[[Any, jax.Array], jax.Array]:
        """Returns a jitted function (parameters, batch) -> the batch's loss. All processes get the same."""
        if self.name != "data":
            return jax.jit(loss)

        def part(parameters: Any, batch: jax.Array) -> jax.Array:
            return jax.lax.pmean(loss(parameters, batch), "data")

        return jax.jit(jax.shard_map(part, mesh=self.mesh, in_specs=(P(), P("data")), out_specs=P()))


def _mesh(sizes: tuple[int, ...], names: tuple[str, ...]) -> Mesh:
    return jax.make_mesh(sizes, names, axis_types=(AxisType.Auto,) * len(names))
