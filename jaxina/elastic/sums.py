"""The sum over the team's members, for use in a step."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from jaxina._jax_compat.lowering import TEAM_SUM
from jaxina._lowering import CARRIED_DTYPES
from jaxina.errors import UnsupportedTypeError

Tree = TypeVar("Tree")


def all_reduce(tree: Tree) -> Tree:
    """Sums arrays over the members of the team.

    It may be called only in the function that is given to `jaxina.elastic.steps`, inside or outside of `jax.jit`. Who
    the members are is known only when it runs, so a program is not compiled again when members come or go. All members
    get the same bits, whatever their order.

    To average, sum the weights too: ``total, rows = all_reduce((gradients, rows))``. It has no derivative: sum
    gradients, do not differentiate through it.

    Args:
      tree: a pytree of arrays, or of what becomes one. All members give the same shapes and dtypes. The arrays are on
        one CPU device.

    Returns:
      The sums, with the same shapes and dtypes. A float32 sum is in block fixed point, as jaxina's psums are.

    Raises:
      UnsupportedTypeError: an array has a dtype that jaxina does not carry, such as float8 or bool.
      NotInitializedError: it ran outside of a step. From inside a program this and the following are XLA's exceptions
        (`jaxina.errors.typed`).
      MismatchError: members sum other things at this place. `steps` handles it.
      WorkerLostError: a member was lost. `steps` handles it.
    """
    leaves, structure = jax.tree.flatten(tree)
    arrays = [jnp.asarray(leaf) for leaf in leaves]
    for array in arrays:
        if array.dtype not in CARRIED_DTYPES:
            raise UnsupportedTypeError(f"jaxina.elastic.all_reduce does not carry {array.dtype}: convert the array")
    return jax.tree.unflatten(structure, _sums(arrays))


@functools.partial(jax.jit, inline=True)
def _sums(arrays: Sequence[jax.Array]) -> list[Any]:
    return [TEAM_SUM.bind(array) for array in arrays]
