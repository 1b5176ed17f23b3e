"""Checks of what `Compressor.update` is given, before anything is computed: a wrong array would broadcast silently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxina.compressors.messages import Arrays
from jaxina.errors import InvalidArgumentError


def gradients(tree: Any) -> Any:
    """Turns all leaves into arrays.

    Raises:
      InvalidArgumentError: one is not of floating point. The mean of integers is no integer, and of a complex number
        the imaginary part would be lost.
    """

    def checked(path: Any, x: Any) -> jax.Array:
        dtype = x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype
        if not jnp.issubdtype(dtype, jnp.floating):
            raise InvalidArgumentError(
                f"the gradient{jax.tree_util.keystr(path)} is {dtype}, but compressors average floating-point arrays. "
                "Leave other leaves out of the tree, and give a complex one as its real and its imaginary part"
            )
        return jnp.asarray(x)

    return jax.tree.map_with_path(checked, tree)


def states(
    first: Callable[[jax.Array, jax.Array], Arrays], leaves: Sequence[jax.Array], own: Sequence[Arrays], key: jax.Array
) -> None:
    """Checks that each leaf's state has the arrays that the compressor makes for it, of their shapes.

    Args:
      first: makes the first state of a leaf, from its parameters and a random key.
      leaves: the gradients.
      own: the leaves' states.
      key: a random key.

    Raises:
      InvalidArgumentError: a state is another compressor's, or of other shapes: for instance of all workers.
    """
    known: dict[tuple[int, ...], dict[str, tuple[int, ...]]] = {}
    for x, state in zip(leaves, own, strict=True):
        if x.shape not in known:
            made = jax.eval_shape(first, jax.ShapeDtypeStruct(x.shape, jnp.float32), key)
            known[x.shape] = {name: array.shape for name, array in made.items()}
        expected, found = known[x.shape], {name: jnp.shape(array) for name, array in state.items()}
        if found != expected:
            raise InvalidArgumentError(
                f"the state of a gradient of shape {x.shape} has the arrays {_listed(found)}, but this compressor's "
                f"has {_listed(expected)}. Give update() the state that init() of the same compressor made, and of "
                "several workers' states only this worker's part"
            )


def _listed(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name}{list(shape)}" for name, shape in sorted(shapes.items())) or "none"
