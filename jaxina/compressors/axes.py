"""The workers as a mapped axis of JAX: how many there are, which one this is, and whether they differ.

With ``check_vma=True``, the default of `jax.shard_map`, the type of an array says over which mesh axes it varies:
``jax.typeof(x).manual_axis_type.varying``. With ``check_vma=False``, and for the axes of `jax.vmap` and `jax.pmap`,
types say nothing.
"""

from __future__ import annotations

from typing import Any

import jax

from jaxina import _tracing_settings
from jaxina.errors import InvalidArgumentError


def place(axis_name: Any) -> tuple[int, jax.Array | int]:
    """Finds the number of workers, and this worker's number, int32[], from 0.

    Args:
      axis_name: the mapped axis of the workers, or a tuple of them. None for a single worker.

    Raises:
      InvalidArgumentError: no axis of that name is mapped here.
    """
    if axis_name is None:
        return 1, 0
    try:
        return jax.lax.axis_size(axis_name), jax.lax.axis_index(axis_name)
    except NameError:
        raise InvalidArgumentError(
            f"a compressor's update() was called where no axis {axis_name!r} is mapped. Call it, or its optimizer's "
            "update(), inside jax.shard_map over a mesh with that axis (or jax.vmap or jax.pmap with that axis_name). "
            "In jax.jit with NamedSharding, without jax.shard_map, give all_reduce_mean the mesh"
        ) from None


def wire_block(x: jax.Array, axis_name: Any) -> int:
    """Finds how many elements share an exponent where jaxina carries the sum over the workers of an array like `x`.

    Returns:
      The job's block size; 0 if jaxina does not carry it: no job runs, the axis is one of `jax.vmap`, or it has one
      worker.
    """
    if axis_name is None or not _tracing_settings.carrying.value or jax.lax.axis_size(axis_name) == 1:
        return 0
    from jaxina import _lowering  # where sums are carried, it is imported already

    names = axis_name if isinstance(axis_name, tuple) else (axis_name,)
    return int(_tracing_settings.block_size.value) if _lowering.carries_psum(jax.typeof(x), names) else 0


def told(axis_name: Any) -> frozenset[Any]:
    """Finds those axes of `axis_name` for which the types of arrays say whether they vary over it."""
    return frozenset() if axis_name is None else jax.typeof(jax.lax.axis_index(axis_name)).manual_axis_type.varying


def check_varying(gradients: Any, axis_name: Any) -> None:
    """Checks that every worker has gradients of its own, as far as types tell.

    The transpose of a replicated array's use by every worker is a sum over the workers. So `jax.grad` with respect to
    replicated parameters sums the gradients, and their types do not vary over the workers' axis.

    Args:
      gradients: pytree of arrays.
      axis_name: the mapped axis of the workers, or a tuple of them. None for a single worker.

    Raises:
      InvalidArgumentError: a gradient does not vary over such an axis.
    """
    expected = told(axis_name)
    for path, x in jax.tree.leaves_with_path(gradients):
        missing = expected - jax.typeof(x).manual_axis_type.varying
        if missing:
            axes = ", ".join(sorted(map(repr, missing)))
            raise InvalidArgumentError(
                f"the gradient{jax.tree_util.keystr(path)} does not vary over the axis {axes}: jax.grad with respect "
                "to replicated parameters has summed it over the workers already. Differentiate with respect to "
                f"jax.lax.pcast(params, {axis_name!r}, to='varying'), or pass check_vma=False to jax.shard_map"
            )
