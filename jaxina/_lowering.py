"""How a psum becomes a `jaxina_all_reduce` custom call, and which ones do.

A psum is carried if the switch was on while it was traced, it sums over a named axis, and its dtype is in
`CARRIED_DTYPES`. Everything else keeps XLA's own collective, is logged at debug level under the logger ``jaxina``, and
is counted in `fallbacks`.
"""

from __future__ import annotations

import collections
import itertools
import logging
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxina import _jax_compat as compat
from jaxina import _module, _native
from jaxina.errors import InvalidArgumentError, NotInitializedError

TARGET = "jaxina_all_reduce"

# xla_ffi/all_reduce_cpu.cc has the same table; keep them together.
CARRIED_DTYPES = frozenset(
    jnp.dtype(name)
    for name in (
        *("bfloat16", "float16", "float32", "float64", "complex64", "complex128"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    )
)

# Part of JAX's trace and compilation cache keys, so programs with and without jaxina never get mixed up.
switch = jax.make_user_context(False)

# Psums that nothing but their order chains are merged up to this many bytes. A collective has a fixed cost of some 0.3 ms
# and sums on the order of 1 GB/s on a CPU, so 4 MiB make the fixed cost small against the sum, and larger gradients still
# leave while the backward pass computes the next ones. Part of the cache keys, too.
BUCKET_BYTES = 4 << 20
bucket_bytes = jax.make_user_context(BUCKET_BYTES)

# Reason -> how many psums kept XLA's own collective for it, counted when they are traced.
fallbacks: collections.Counter[str] = collections.Counter()

_log = logging.getLogger("jaxina")


def _carried(aval: Any, *, axes: tuple[Any, ...], **_: Any) -> bool:
    if not switch.value or all(isinstance(axis, int) for axis in axes):
        return False
    if aval.dtype not in CARRIED_DTYPES:
        reason = f"dtype {aval.dtype}"
    elif compat.token_breaks_partitioner(aval):
        reason = "partial-auto shard_map before JAX 0.12"
    else:
        return True
    fallbacks[reason] += 1
    _log.debug("psum of %s over %s stays with XLA: %s", aval, axes, reason)
    return False


def _all_reduce(ctx: Any, operand: Any, *, axes: tuple[Any, ...], axis_index_groups: Any = None) -> Any:
    named = tuple(axis for axis in axes if not isinstance(axis, int))
    positional = tuple(axis for axis in axes if isinstance(axis, int))
    groups = _global_groups(compat.replica_groups(ctx, named, axis_index_groups))
    if groups.shape[1] > 1 and not _native.running():
        raise NotInitializedError("a psum is to be compiled for jaxina, but jaxina.init() has not been called")
    if positional:
        operand = compat.sum_positional(ctx, operand, positional)
    attributes = {"groups": groups.reshape(-1), "group_size": np.int64(groups.shape[1])}
    return compat.ordered_custom_call(ctx, TARGET, operand, attributes)


def _global_groups(positions: list[list[int]]) -> np.ndarray:
    """[number of groups, size of the largest] int64 global device ids, shorter groups padded with -1."""
    ids = compat.device_ids()
    if ids is None:
        raise InvalidArgumentError(
            "jaxina must know the devices when a psum is compiled; an abstract mesh does not name them. "
            "Compile with a concrete jax.sharding.Mesh, or leave jaxina switched off for this program"
        )
    rows = [[ids[position] for position in group] for group in positions]
    return np.array(list(itertools.zip_longest(*rows, fillvalue=-1)), dtype=np.int64).T.copy()


def _finish(module: Any) -> None:
    """What is done to each lowered module that holds carried psums."""
    axes = _module.mesh_axes(module)
    if compat.PARTIAL_AUTO_BREAKS and _module.token_in_partial_manual(module.operation, axes, frozenset()):
        # XLA would abort the process. That one shard_map stands inside another is not visible when psum is traced.
        raise InvalidArgumentError(
            "a psum in a shard_map inside another shard_map needs JAX 0.12: leave jaxina switched off for this program"
        )
    _module.finish(module, TARGET, bucket_bytes.value)


def install() -> None:
    """Registers the handler and overrides the psum primitives. Does not initialise a backend."""
    compat.check_version()
    jax.ffi.register_ffi_target(TARGET, _native.all_reduce_cpu(), platform="cpu")
    compat.install_order(_finish)
    for primitive in (compat.psum_p, compat.psum_invariant_p):
        compat.extend_effects(primitive, _carried)
        compat.override_lowering(primitive, "cpu", _all_reduce)
