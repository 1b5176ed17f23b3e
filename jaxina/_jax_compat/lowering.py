"""The private parts of JAX and MLIR that jaxina's lowering rules need."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax._src.interpreters import mlir
from jax._src.interpreters.mlir import (
    TokenSet,
    custom_call,
    dense_int_array,
    ir_attribute,
    ir_constant,
    lower_fun,
    lower_with_sharding_in_types,
    register_lowering,
    token_type,
)
from jax._src.lax.lax import reduce_sum
from jax._src.lax.parallel import _replica_groups, psum_invariant_p, psum_p, reduce_scatter_p
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo
from jax.extend.core import Primitive

from jaxina._jax_compat.effect import ORDER

PSUMS = (psum_p, psum_invariant_p)
PSUM_SCATTER = reduce_scatter_p


class _UnderWay(threading.local):
    """What is known about the module that this thread is lowering."""

    def __init__(self) -> None:
        self.devices: Any = None  # the module's devices; None if they are not known
        self.token_inside = False  # whether the program must create the token of ORDER itself: its caller passes none
        self.reasons: dict[str, None] = {}  # why sums stay with XLA; a dict, to keep each reason once and in order


under_way = _UnderWay()


def note(reason: str) -> None:
    """Notes a reason why sums of the module under lowering stay with XLA."""
    under_way.reasons[reason] = None


def check() -> None:
    """Raises AttributeError or ImportError if the primitives cannot be overridden."""
    for primitive in (*PSUMS, PSUM_SCATTER):
        if not hasattr(mlir._lowerings.get(primitive), "rule"):
            raise ImportError(f"jax._src.interpreters.mlir._lowerings has no rule for {primitive}")
        for name in ("abstract_eval", "def_effectful_abstract_eval"):
            getattr(primitive, name)


def extend_effects(primitive: Any, carried: Callable[..., bool]) -> None:
    """Gives `primitive` the effect ORDER in those equations for which ``carried(aval, **params)`` is true."""
    native = primitive.abstract_eval

    def abstract_eval(aval: Any, **params: Any) -> tuple[Any, set[Any]]:
        out, effs = native(aval, **params)
        return out, {*effs, ORDER} if carried(aval, **params) else effs

    primitive.def_effectful_abstract_eval(abstract_eval)


def override_lowering(primitive: Any, rules: dict[str, Callable[..., Any]], stays: Callable[..., str | None]) -> None:
    """Overrides how equations of `primitive` that have the effect ORDER are lowered.

    JAX's own rule still lowers equations without the effect, equations on platforms that `rules` does not name, and
    equations for which the platform's rule returns None.

    Args:
      primitive: the primitive.
      rules: for each platform a lowering rule, called as ``rule(ctx, operand, **params)``.
      stays: is called as ``stays(aval, **params)`` for equations without the effect. It returns why the equation stays
        with XLA, which is noted for the module; None or "" notes nothing.
    """
    native = mlir._lowerings[primitive].rule

    def elsewhere(ctx: Any, operand: Any, **params: Any) -> Any:
        results = native(ctx, operand, **params)
        if ORDER in ctx.tokens_in.effects():
            ctx.set_tokens_out(ctx.tokens_in)
        elif reason := stays(ctx.avals_in[0], **params):
            note(reason)
        return results

    def lowered_by(rule: Callable[..., Any]) -> Callable[..., Any]:
        def here(ctx: Any, operand: Any, **params: Any) -> Any:
            results = rule(ctx, operand, **params) if ORDER in ctx.tokens_in.effects() else None
            return elsewhere(ctx, operand, **params) if results is None else results

        return here

    register_lowering(primitive, elsewhere)
    for platform, rule in rules.items():
        register_lowering(primitive, lowered_by(rule), platform=platform)


TEAM_SUM = Primitive("team_sum")
"""The sum of an array over an elastic team (`jaxina._team_sums`)."""


def def_team_sum(rule: Callable[..., Any]) -> None:
    """Defines `TEAM_SUM`. `rule` lowers it on CPU, called as ``rule(ctx, operand)``."""
    TEAM_SUM.def_effectful_abstract_eval(lambda aval: (aval, {ORDER}))
    register_lowering(TEAM_SUM, rule, platform="cpu")


# Up to JAX 0.11, XLA aborts on a token in a shard_map that leaves some mesh axes to the partitioner (partial-auto).
PARTIAL_AUTO_BREAKS = jax.__version_info__ < (0, 12)


def in_partial_auto(aval: Any) -> bool:
    """Whether the operand's type tells that it is in a shard_map that leaves some mesh axes to the partitioner."""
    mesh = aval.sharding.mesh
    manual = set(mesh.manual_axes)
    return any(size > 1 for axis, size in mesh.shape.items() if axis not in manual)


def replica_groups(ctx: Any, axes: Sequence[Any], axis_index_groups: Sequence[Sequence[int]] | None) -> list[list[int]]:
    """The groups of a collective over named axes. Devices are given as positions in the program's device list."""
    groups = _replica_groups(ctx.module_context.axis_context, axes, axis_index_groups)
    return [list(map(int, group)) for group in groups]


def device_ids() -> list[int] | None:
    """The global ids of the devices that the module under lowering is for, in order; None if they are not known."""
    return None if under_way.devices is None else [device.id for device in under_way.devices]


def local_gpus() -> dict[int, int]:
    """The global ids of this process's GPUs that the module under lowering is for, by their number in the process."""
    return {
        device.local_hardware_id: device.id
        for device in under_way.devices or ()
        if device.platform == "gpu" and device.process_index == device.client.process_index()
    }


def sum_positional(ctx: Any, operand: ir.Value[Any], axes: Sequence[int]) -> ir.Value[Any]:
    """Sums `operand` over its own dimensions `axes`, within one device."""
    (aval,) = ctx.avals_in
    shape = tuple(size for axis, size in enumerate(aval.shape) if axis not in axes)
    sub_ctx = ctx.replace(primitive=None, avals_in=[aval], avals_out=[aval.update(shape=shape)])
    (result,) = lower_fun(reduce_sum, multiple_results=False)(sub_ctx, operand, axes=tuple(axes))
    return result


def ordered_custom_call(
    ctx: Any, target: str, operand: ir.Value[Any], attributes: dict[str, np.ndarray | np.integer]
) -> ir.Value[Any]:
    """Makes a typed-FFI custom call with one operand and a result of the same type, ordered by the token of ORDER.

    The call has no side effect in XLA's sense. The token alone keeps it from being dropped, and in order. So
    shard_map's partial-auto mode may replicate it.
    """
    layout = tuple(range(ir.RankedTensorType(operand.type).rank - 1, -1, -1))
    call = custom_call(
        target,
        result_types=[token_type(), operand.type],
        operands=[ctx.tokens_in.get(ORDER), operand],
        has_side_effect=False,
        api_version=4,
        backend_config={name: ir_attribute(value) for name, value in attributes.items()},
        operand_layouts=[(), layout],
        result_layouts=[(), layout],
    )
    ctx.set_tokens_out(ctx.tokens_in.update_tokens(TokenSet({ORDER: call.results[0]})))
    return call.results[1]


def own_part(operand: ir.Value[Any], places: Sequence[int], dimension: int, tiled: bool) -> ir.Value[Any]:
    """Cuts out the part of `operand` that belongs to the device that runs the program.

    Args:
      operand: the array. It is cut along `dimension` into as many equal parts as there are different `places`.
      places: the number of each device's part, in the order of the program's devices.
      dimension: the dimension to cut along.
      tiled: whether the result keeps `dimension`. If not, the parts have size 1 along it, and the result lacks it.
    """
    full = ir.RankedTensorType(operand.type)
    shape = list(full.shape)
    shape[dimension] //= len(set(places))
    scalar = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    starts = ir_constant(np.array(places, np.int32) * np.int32(shape[dimension]))
    device = hlo.convert(scalar, hlo.partition_id())
    start = hlo.reshape(scalar, hlo.dynamic_slice(starts, [device], dense_int_array([1])))
    zero = ir_constant(np.int32(0))
    corner = [start if axis == dimension else zero for axis in range(len(shape))]
    part = hlo.dynamic_slice(operand, corner, dense_int_array(shape))
    if tiled:
        return part
    del shape[dimension]
    return hlo.reshape(ir.RankedTensorType.get(shape, full.element_type), part)


def as_dict(attributes: ir.Attribute) -> dict[str, ir.Attribute]:
    named = ir.DictAttr(attributes)
    return {named[place].name: named[place].attr for place in range(len(named))}


def as_result(ctx: Any, value: ir.Value[Any]) -> list[ir.Value[Any]]:
    """What a lowering rule with the single result `value` must return."""
    return [lower_with_sharding_in_types(ctx, value, ctx.avals_out[0])]
