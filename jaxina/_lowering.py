"""Decides which psums jaxina carries, and lowers those to a ``jaxina_all_reduce`` custom call.

A psum is carried if `_tracing_settings.carrying` was on while it was traced, it sums over a named axis, and its dtype
is in `CARRIED_DTYPES`. All others keep XLA's own collective, and `jaxina.report` says why.

A psum_scatter is lowered to a psum of which each device keeps its part. This costs no time: an aggregator needs every
worker's whole operand anyway, and a link carries both directions at once, so the whole sum returns in the time in which
the operands arrive.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxina import _gpu, _module, _native, _report, _route, _team_sums, _tracing_settings, _watching, joining
from jaxina._jax_compat import compiled, program, run
from jaxina._jax_compat import lowering as compat
from jaxina.errors import InvalidArgumentError, NotInitializedError

TARGET = "jaxina_all_reduce"
# On a GPU the sum is two calls. What XLA schedules between them runs while the sum is under way.
START, DONE = "jaxina_all_reduce_start", "jaxina_all_reduce_done"

# xla_ffi/all_reduce_call.cc has the same table; keep them together.
CARRIED_DTYPES = frozenset(
    jnp.dtype(name)
    for name in (
        *("bfloat16", "float16", "float32", "float64", "complex64", "complex128"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    )
)


def carries_psum(aval: Any, axes: tuple[Any, ...]) -> bool:
    """Whether a psum of `aval` over `axes`, bound now, will be carried, if the default backend compiles it.

    Some of the axes must be those of devices.
    """
    return _psum_why_not(aval, axes=axes) is None and _on_platform()


def carries_psum_scatter(aval: Any) -> bool:
    """The same of a psum_scatter."""
    return _psum_scatter_why_not(aval) is None and _on_platform()


def _on_platform() -> bool:
    platform = jax.default_backend()
    return platform == "cpu" or (platform == "gpu" and bool(gpu_handlers()))


def _psum_why_not(aval: Any, *, axes: tuple[Any, ...], **_: Any) -> str | None:
    if all(isinstance(axis, int) for axis in axes):
        return ""  # not carried, but no collective either, so the report needs no reason
    return _why_not("psum", aval, breaks_in_partial_auto=compat.PARTIAL_AUTO_BREAKS)


def _psum_scatter_why_not(aval: Any, **_: Any) -> str | None:
    # A device finds its part by its number, which is not known in a shard_map that leaves axes to the partitioner.
    return _why_not("psum_scatter", aval, breaks_in_partial_auto=True)


def _why_not(name: str, aval: Any, *, breaks_in_partial_auto: bool) -> str | None:
    """Why this sum stays with XLA; None if jaxina carries it."""
    if not _tracing_settings.carrying.value:
        return _report.OFF
    if aval.dtype not in CARRIED_DTYPES:
        return f"dtype {aval.dtype}"
    if breaks_in_partial_auto and compat.in_partial_auto(aval):
        return f"{name} in a partial-auto shard_map"
    return None


def _psum(ctx: Any, operand: Any, *, axes: tuple[Any, ...], axis_index_groups: Any = None, target: str = TARGET) -> Any:
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
    """Lowers the sum of `operand` over groups of devices, given as positions in the program's device list."""
    groups = _global_groups(positions)
    if groups.shape[1] > 1 and not _native.running():
        raise NotInitializedError(
            "a program whose psum jaxina carries is being compiled, but no job is running: call jaxina.init() first"
        )
    attributes: dict[str, np.ndarray | np.integer] = {
        "groups": groups.reshape(-1),
        "group_size": np.int64(groups.shape[1]),
    }
    attributes["precision"] = np.array(_tracing_settings.precision.value.numbers, np.int64)
    return compat.ordered_custom_call(ctx, target, operand, attributes)


def _on_gpu(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Makes the lowering rule for CUDA. It leaves psums to XLA if jaxina-cuda13 is not installed."""

    def lowered(ctx: Any, operand: Any, **params: Any) -> Any:
        if not gpu_handlers():
            compat.note("jaxina-cuda13 is not installed")
            return None
        if gpus := compat.local_gpus():
            _native.set_gpu_ids(gpus)
        return rule(ctx, operand, target=START, **params)

    return lowered


def gpu_handlers() -> dict[str, Any]:
    """The CUDA handlers, by the target of their custom call; empty if jaxina-cuda13 is not installed."""
    return _native.gpu_handlers()


def _global_groups(positions: list[list[int]]) -> np.ndarray:
    """The groups as global device ids: int64[groups, size of the largest], shorter groups padded with -1."""
    ids = compat.device_ids()
    if ids is None:
        raise InvalidArgumentError(
            "jaxina must know the devices when a psum is compiled, but this program has an abstract mesh, which does "
            "not name them. Compile it with a concrete jax.sharding.Mesh, or inside jaxina.collectives(False)"
        )
    rows = [[ids[position] for position in group] for group in positions]
    return np.array(list(itertools.zip_longest(*rows, fillvalue=-1)), dtype=np.int64).T.copy()


def _finish(module: Any) -> None:
    """Finishes a lowered module that holds carried sums: merges, names and places them, and splits those of GPUs."""
    _module.finish(module, (TARGET, START, _team_sums.TARGET), _tracing_settings.bucket_bytes.value)
    _module.split(module, START, DONE)
    _module.mark(module, _team_sums.TARGET)


def _all_stay() -> str | None:
    return _report.OFF if _native.running() and not _tracing_settings.carrying.value else None


def _settings() -> dict[str, str]:
    """The attributes of a module by which `_route` runs its program, whenever it is compiled."""
    own = _tracing_settings.precision.value
    return {} if own == _tracing_settings.Precision() else {_route.PRECISION: " ".join(map(str, own.numbers))}


def _begin() -> contextlib.AbstractContextManager[None]:
    if not _native.running():
        joining.refuse_without_init()
    return _watching.progress.compiling()


def _add_to_report(module: Any, text: Callable[[], str]) -> None:
    if _native.running():
        routed = frozenset() if _route.why_closed else _route.KINDS
        _report.add_program(
            text, frozenset((TARGET, START)), routed, _route.why_closed, lambda: _module.identity(module)
        )


def _around(module: Any, text: Callable[[], str], processes: list[int]) -> Callable[[Any], Any] | None:
    """Says how the runs of a compiled program are followed or enclosed; None: not at all."""
    if _module.is_marked(module, _team_sums.TARGET):
        return _team_sums.following
    if jax.process_count() > 1 and jax.process_index() in processes:
        return _route.around(_module.identity, module, text, processes)
    return None


def install() -> None:
    """Registers the handlers and overrides the primitives that sum. It does not start JAX's backend."""
    jax.ffi.register_ffi_target(TARGET, _native.all_reduce_cpu(), platform="cpu")
    jax.ffi.register_ffi_target(_team_sums.TARGET, _native.team_all_reduce_cpu(), platform="cpu")
    _gpu.load()
    for name, registration in _native.gpu_types().items():
        jax.ffi.register_ffi_type(name, registration, platform="CUDA")
    for target, handler in gpu_handlers().items():
        jax.ffi.register_ffi_target(target, handler, platform="CUDA")
    program.install(_finish, _report.REASONS, _report.SEPARATOR, _all_stay, _settings)
    compiled.watch(_begin, _add_to_report)
    run.surround(_around)
    compat.def_team_sum(_team_sums.lowered)
    for primitives, rule, why_not in (
        (compat.PSUMS, _psum, _psum_why_not),
        ((compat.PSUM_SCATTER,), _psum_scatter, _psum_scatter_why_not),
    ):
        for primitive in primitives:
            compat.extend_effects(primitive, functools.partial(_carried, why_not))
            rules = {"cpu": rule, "cuda": _on_gpu(rule)}
            compat.override_lowering(primitive, rules, functools.partial(_stays, why_not))


def _carried(why_not: Callable[..., str | None], aval: Any, **params: Any) -> bool:
    return why_not(aval, **params) is None


def _stays(why_not: Callable[..., str | None], aval: Any, **params: Any) -> str | None:
    """The reason that the report gives for a sum that JAX lowers; None if no job is running or there is no reason."""
    return why_not(aval, **params) if _native.running() else None
