"""A compressor's state is kept as optimizers keep theirs: a tree like the parameters for each name of array.

So the paths of a checkpoint have the parameters' names, and `optax.tree_map_params` works. Reductions want the other
order: the arrays of one leaf, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxina.compressors.messages import Arrays
from jaxina.errors import InvalidArgumentError

Structure = Any
"""A `jax.tree_util.PyTreeDef`."""


def make(first: Callable[[jax.Array, jax.Array], Arrays], params: Any, key: jax.Array) -> dict[str, Any]:
    """Makes the states of all leaves.

    Args:
      first: makes the state of a leaf, from its parameters and its random key.
      params: pytree of arrays. It may have no leaves, as the placeholder of `optax.tree_map_params`.
      key: a random key.

    Raises:
      InvalidArgumentError: two leaves have other names.
    """
    leaves, structure = jax.tree.flatten(jax.tree.map(lambda x: x if hasattr(x, "shape") else jnp.asarray(x), params))
    states = [first(x, own) for x, own in zip(leaves, keys(key, len(leaves)), strict=True)]
    example = states[0] if states else jax.eval_shape(first, jax.ShapeDtypeStruct((8, 8), jnp.float32), key)
    for state in states:
        if state.keys() != example.keys():
            raise InvalidArgumentError(
                f"init_leaf gives a leaf the arrays {sorted(state)} and another one {sorted(example)}: give all the "
                "same names. An array that a leaf does not need may be empty"
            )
    return by_name(states, example, structure)


def keys(key: jax.Array, leaves: int) -> list[jax.Array]:
    """Makes a random key for each leaf."""
    return [jax.random.fold_in(key, index) for index in range(leaves)]


def by_name(states: Sequence[Arrays], names: Mapping[str, Any], structure: Structure) -> dict[str, Any]:
    """Turns the leaves' arrays by name into a tree for each name."""
    return {name: jax.tree.unflatten(structure, [state[name] for state in states]) for name in names}


def by_leaf(trees: Mapping[str, Any], structure: Structure) -> list[Arrays]:
    """Turns a tree for each name into the leaves' arrays by name.

    Raises:
      InvalidArgumentError: a tree has another structure.
    """
    columns = {name: like(tree, structure) for name, tree in trees.items()}
    return [{name: column[i] for name, column in columns.items()} for i in range(structure.num_leaves)]


def like(tree: Any, structure: Structure) -> list[Any]:
    """Lists the leaves of a tree.

    Raises:
      InvalidArgumentError: the tree has another structure.
    """
    leaves, own = jax.tree.flatten(tree)
    if own != structure:
        raise InvalidArgumentError(f"the gradients are {structure}, but the state or the parameters are {own}")
    return leaves
