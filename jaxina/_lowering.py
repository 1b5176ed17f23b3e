"""How a psum becomes a `jaxina_all_reduce` custom call, and which ones do.

A psum is carried if the switch was on while it was traced, it sums over a named axis, and its dtype is in
`CARRIED_DTYPES`. Everything else keeps XLA's own collective, is logged at debug level under the logger ``jaxina``, and
is counted in `fallbacks`.

A psum_scatter is a psum of which each device keeps its part. An aggregator needs every worker's whole operand in any
case, and a link carries both directions at once, so sending back the whole sum takes no longer than the operands took to
arrive.
"""

from __future__ import annotations

import collections
import itertools
import logging
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxina import _jax_compat as compat
from jaxina import _module, _native
from jaxina.errors import InvalidArgumentError, NotInitializedError

TARGET = "jaxina_all_reduce"
# The same on a GPU, in two calls: what XLA puts between them runs while the sum is under way.
START, DONE = "jaxina_all_reduce_start", "jaxina_all_reduce_done"

# xla_ffi/all_reduce_call.cc has the same table; keep them together.
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

# Reason -> how many psums and psum_scatters, or whole programs, kept XLA's own collectives for it, counted when they are
# traced or lowered.
fallbacks: collections.Counter[str] = collections.Counter()

_log = logging.getLogger("jaxina")


def _psum_carried(aval: Any, *, axes: tuple[Any, ...], **_: Any) -> bool:
    if all(isinstance(axis, int) for axis in axes):
        return False
    return _carried("psum", aval, axes, breaks_in_partial_auto=compat.PARTIAL_AUTO_BREAKS)


def _psum_scatter_carried(aval: Any, *, axis_name: Any, **_: Any) -> bool:
    # A device's number, by which it finds its part, is not known where the partitioner has axes left.
    return _carried("psum_scatter", aval, axis_name, breaks_in_partial_auto=True)


def _carried(name: str, aval: Any, axes: Any, *, breaks_in_partial_auto: bool) -> bool:
    if not switch.value:
        return False
    if aval.dtype not in CARRIED_DTYPES:
        reason = f"dtype {aval.dtype}"
    elif breaks_in_partial_auto and compat.in_partial_auto(aval):
        reason = f"{name} in a partial-auto shard_map"
    else:
        return True
    fallbacks[reason] += 1
    _log.debug("%s of %s over %s stays with XLA: %s", name, aval, axes, reason)
    return False


def _psum(
    ctx: Any, operand: Any, *, axes: tuple[Any, ...], axis_index_groups: Any = None, target: str = TARGET
) -> Any:
    named = tuple(axis for axis in axes if not isinstance(axis, int))
    positional = tuple(axis for axis in axes if isinstance(axis, int))
    if positional:
        operand = compat.sum_positional(ctx, operand, positional)
    groups = compat.replica_groups(ctx, named, axis_index_groups)
    return compat.as_result(ctx, _all_reduce(ctx, target, operand, groups))


def _psum_scatter(
    ctx: Any,
    operand: Any,
    *,
    axis_name: Any,
    axis_index_groups: Any,
    scatter_dimension: int,
    tiled: bool,
    target: str = TARGET,
    **_: Any,
) -> Any:
    groups = compat.replica_groups(ctx, axis_name, axis_index_groups)
    places = {device: place for group in groups for place, device in enumerate(group)}
    summed = _all_reduce(ctx, target, operand, groups)
    part = compat.own_part(summed, [places[device] for device in sorted(places)], scatter_dimension, tiled)
    return compat.as_result(ctx, part)


def _all_reduce(ctx: Any, target: str, operand: Any, positions: list[list[int]]) -> Any:
    """The sum of `operand` over groups of positions in the program's device list."""
    groups = _global_groups(positions)
    if groups.shape[1] > 1 and not _native.running():
        raise NotInitializedError("a psum is to be compiled for jaxina, but jaxina.init() has not been called")
    attributes = {"groups": groups.reshape(-1), "group_size": np.int64(groups.shape[1])}
    return compat.ordered_custom_call(ctx, target, operand, attributes)


def _on_gpu(rule: Callable[..., Any]) -> Callable[..., Any]:
    """The rule for CUDA, which leaves a psum to XLA if jaxina was built without."""

    def lowered(ctx: Any, operand: Any, **params: Any) -> Any:
        if not gpu_handlers():
            reason = "jaxina was built without CUDA"
            fallbacks[reason] += 1
            _log.debug("a psum on a GPU stays with XLA: %s", reason)
            return None
        if gpus := compat.local_gpus():
            _native.set_gpu_ids(gpus)
        return rule(ctx, operand, target=START, **params)

    return lowered


def gpu_handlers() -> dict[str, Any]:
    """Custom call -> its handler on CUDA; empty if jaxina was built without CUDA."""
    return _native.gpu_handlers()


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
    _module.finish(module, (TARGET, START), bucket_bytes.value)
    _module.split(module, START, DONE)


def _left_to_xla(reason: str) -> None:
    fallbacks[reason] += 1
    _log.debug("all collectives of a program stay with XLA: %s", reason)


def install() -> None:
    """Registers the handlers and overrides the primitives that sum. Does not initialise a backend."""
    compat.check_version()
    jax.ffi.register_ffi_target(TARGET, _native.all_reduce_cpu(), platform="cpu")
    for name, registration in _native.gpu_types().items():
        jax.ffi.register_ffi_type(name, registration, platform="CUDA")
    for target, handler in gpu_handlers().items():
        jax.ffi.register_ffi_target(target, handler, platform="CUDA")
    compat.install_order(_finish, _left_to_xla)
    for primitive in (compat.psum_p, compat.psum_invariant_p):
        compat.extend_effects(primitive, _psum_carried)
        compat.override_lowering(primitive, {"cpu": _psum, "cuda": _on_gpu(_psum)})
    compat.extend_effects(compat.reduce_scatter_p, _psum_scatter_carried)
    compat.override_lowering(
        compat.reduce_scatter_p, {"cpu": _psum_scatter, "cuda": _on_gpu(_psum_scatter)}
    )
