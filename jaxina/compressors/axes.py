"""The workers as a mapped axis of JAX: how many there are, which one this is, and whether they differ.

With ``check_vma=True``, the default of `jax.shard_map`, the type of an array says over which mesh axes it varies:
``jax.typeof(x).manual_axis_type.varying``. With ``check_vma=False``, and for the axes of `jax.vmap` and `jax.pmap`,
types say nothing.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxina import _tracing_settings
from jaxina.compressors.messages import SUM, SUMMED
from jaxina.errors import InvalidArgumentError


def place(axis_name: Any) -> tuple[int, jax.Array | int]:
    """Finds the number of workers, and this worker's number, int32[], from 0.

    Args:
      axis_name: the mapped axis of the workers, or a tuple of them. None for a single worker.

    Raises:
      InvalidArgumentError: no axis of that name is mapped here, or none is named.
    """
    if axis_name is None:
        return 1, 0
    if axis_name == ():
        raise InvalidArgumentError("the axis of the workers is an empty tuple: None is a single worker")
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
    carried = _is_carried(SUM, x, axis_name) and _devices(axis_name) == set(_names(axis_name))
    return int(_tracing_settings.block_size.value) if carried else 0


def sums_in_blocks(kind: str, x: jax.Array, axis_name: Any) -> bool:
    """Whether messages of this kind of arrays like `x` are sums of float32 that jaxina makes in block fixed point.

    Where XLA's own collectives come to jaxina, it also makes the sums that stay with XLA.
    """
    if kind not in SUMMED or x.dtype != jnp.float32 or not _devices(axis_name):
        return False
    from jaxina import _route

    return _is_carried(kind, x, axis_name) or _route.why_closed is None


def _is_carried(kind: str, x: jax.Array, axis_name: Any) -> bool:
    if not _devices(axis_name):
        return False
    from jaxina import _lowering  # where sums are carried, it is imported already

    if kind == SUM:
        return _lowering.carries_psum(jax.typeof(x), _names(axis_name))
    return _lowering.carries_psum_scatter(jax.typeof(x))


def _devices(axis_name: Any) -> set[Any]:
    """Those axes of `axis_name` that are devices, if a job runs and there are several workers; else none.

    Workers of a `jax.vmap` are summed within a device.
    """
    if axis_name is None or not _tracing_settings.carrying.value or jax.lax.axis_size(axis_name) == 1:
        return set()
    return set(_names(axis_name)) & set(jax.sharding.get_abstract_mesh().manual_axes)


def _names(axis_name: Any) -> tuple[Any, ...]:
    return axis_name if isinstance(axis_name, tuple) else (axis_name,)


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
