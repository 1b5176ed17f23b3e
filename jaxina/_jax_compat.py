"""Every private name of JAX that jaxina uses, and nothing else uses one.

Tested with the JAX versions in `TESTED`; a newer one warns once, since the names below may have moved.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import core, dispatch, distributed, effects, xla_bridge
from jax._src.interpreters import mlir, pxla
from jax._src.lax import lax as lax_internal
from jax._src.lax import parallel
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import func as func_dialect
from jax._src.lib.mlir.dialects import hlo

OLDEST = (0, 10, 2)
TESTED = ("0.10", "0.11", "0.12")

psum_p = parallel.psum_p
psum_invariant_p = parallel.psum_invariant_p
reduce_scatter_p = parallel.reduce_scatter_p
JaxRuntimeError = jax.errors.JaxRuntimeError


class CollectiveOrder(effects.Effect):
    """Threads one token through a program's collectives, so that XLA keeps them in program order."""

    def __repr__(self) -> str:
        return "jaxina.CollectiveOrder"

    def __eq__(self, other: object) -> bool:
        return type(other) is CollectiveOrder

    def __hash__(self) -> int:
        return hash(CollectiveOrder)


ORDER = CollectiveOrder()

_EFFECT_SETS = (
    effects.ordered_effects,
    effects.shardable_ordered_effects,
    effects.lowerable_effects,
    effects.control_flow_allowed_effects,
    effects.custom_derivatives_allowed_effects,
    effects.remat_allowed_effects,
)

# From JAX 0.11 on a closed program is a Jaxpr itself; 0.12 has no other name for it.
_ClosedJaxpr = getattr(core, "ClosedJaxpr", core.Jaxpr)

# What the lowering under way in this thread knows: the module's devices, and that its caller keeps no token for ORDER.
_lowering = threading.local()


def check_version() -> None:
    """Warns if this JAX is not one of the tested versions; raises ImportError if it is too old."""
    if jax.__version_info__[:3] < OLDEST:
        raise ImportError(f"jaxina needs JAX {'.'.join(map(str, OLDEST))} or newer, found {jax.__version__}")
    if not any(jax.__version__.startswith(f"{v}.") for v in TESTED):
        warnings.warn(
            f"jaxina has been tested with JAX {', '.join(TESTED)}, not with {jax.__version__}",
            stacklevel=3,
        )


def extend_effects(primitive: Any, carried: Callable[..., bool]) -> None:
    """Makes `primitive` have the effect ORDER whenever `carried(aval, **params)` holds."""
    native = primitive.abstract_eval

    def abstract_eval(aval: Any, **params: Any):
        out, effs = native(aval, **params)
        return out, {*effs, ORDER} if carried(aval, **params) else effs

    primitive.def_effectful_abstract_eval(abstract_eval)


def override_lowering(primitive: Any, rules: dict[str, Callable[..., Any]]) -> None:
    """Equations that have the effect ORDER are lowered by rules[platform](ctx, operand, **params), on the platforms named.

    All other equations keep the native rule; so do those with the effect on other platforms, and those for which the
    platform's rule returns None.
    """
    native = mlir._lowerings[primitive].rule

    def elsewhere(ctx: Any, operand: Any, **params: Any):
        results = native(ctx, operand, **params)
        if ORDER in ctx.tokens_in.effects():
            ctx.set_tokens_out(ctx.tokens_in)
        return results

    def lowered_by(rule: Callable[..., Any]) -> Callable[..., Any]:
        def here(ctx: Any, operand: Any, **params: Any):
            results = rule(ctx, operand, **params) if ORDER in ctx.tokens_in.effects() else None
            return elsewhere(ctx, operand, **params) if results is None else results

        return here

    mlir.register_lowering(primitive, elsewhere)
    for platform, rule in rules.items():
        mlir.register_lowering(primitive, lowered_by(rule), platform=platform)


# Up to JAX 0.11 XLA aborts on a token in a shard_map that leaves some mesh axes to the partitioner.
PARTIAL_AUTO_BREAKS = jax.__version_info__ < (0, 12)


def in_partial_auto(aval: Any) -> bool:
    """Whether this operand stands in a shard_map that leaves axes to the partitioner, as far as its type tells."""
    mesh = aval.sharding.mesh
    manual = set(mesh.manual_axes)
    return any(size > 1 for axis, size in mesh.shape.items() if axis not in manual)


def replica_groups(
    ctx: Any, axes: Sequence[Any], axis_index_groups: Sequence[Sequence[int]] | None
) -> list[list[int]]:
    """The groups of a collective over named axes, as positions in the program's device list."""
    groups = parallel._replica_groups(ctx.module_context.axis_context, axes, axis_index_groups)
    return [list(map(int, group)) for group in groups]


def device_ids() -> list[int] | None:
    """Global ids of the devices that the module under lowering is for, in order; None if they are not known."""
    devices = getattr(_lowering, "devices", None)
    return None if devices is None else [device.id for device in devices]


def local_gpus() -> dict[int, int]:
    """This process's GPUs among the devices of the module under lowering: number within the process -> global id."""
    return {
        device.local_hardware_id: device.id
        for device in getattr(_lowering, "devices", None) or ()
        if device.platform == "gpu" and device.process_index == device.client.process_index()
    }


def sum_positional(ctx: Any, operand: ir.Value, axes: Sequence[int]) -> ir.Value:
    """`operand` summed over its own dimensions `axes`, within one device."""
    (aval,) = ctx.avals_in
    shape = tuple(size for axis, size in enumerate(aval.shape) if axis not in axes)
    sub_ctx = ctx.replace(primitive=None, avals_in=[aval], avals_out=[aval.update(shape=shape)])
    reduce_sum = mlir.lower_fun(lax_internal.reduce_sum, multiple_results=False)
    (result,) = reduce_sum(sub_ctx, operand, axes=tuple(axes))
    return result


def ordered_custom_call(
    ctx: Any, target: str, operand: ir.Value, attributes: dict[str, np.ndarray | np.integer]
) -> ir.Value:
    """The result of a typed-FFI custom call with one operand of the same type, ordered by the token of ORDER.

    It has no side effect in XLA's sense: the token alone keeps it, in order, and lets shard_map's partial-auto mode
    replicate it.
    """
    layout = tuple(range(ir.RankedTensorType(operand.type).rank - 1, -1, -1))
    call = mlir.custom_call(
        target,
        result_types=[mlir.token_type(), operand.type],
        operands=[ctx.tokens_in.get(ORDER), operand],
        has_side_effect=False,
        api_version=4,
        backend_config={name: mlir.ir_attribute(value) for name, value in attributes.items()},
        operand_layouts=[(), layout],
        result_layouts=[(), layout],
    )
    ctx.set_tokens_out(ctx.tokens_in.update_tokens(mlir.TokenSet({ORDER: call.results[0]})))
    return call.results[1]


def own_part(operand: ir.Value, places: Sequence[int], dimension: int, tiled: bool) -> ir.Value:
    """The part of `operand` that belongs to the running device.

    Args:
      operand: cut along `dimension` into as many equal parts as there are different places.
      places: [number of devices]: which part is whose, in the order of the program's devices.
      tiled: if not, the parts have size 1 along `dimension`, and the result lacks it.
    """
    full = ir.RankedTensorType(operand.type)
    shape = list(full.shape)
    shape[dimension] //= len(set(places))
    scalar = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    starts = mlir.ir_constant(np.array(places, np.int32) * np.int32(shape[dimension]))
    device = hlo.convert(scalar, hlo.partition_id())
    start = hlo.reshape(scalar, hlo.dynamic_slice(starts, [device], mlir.dense_int_array([1])))
    zero = mlir.ir_constant(np.int32(0))
    corner = [start if axis == dimension else zero for axis in range(len(shape))]
    part = hlo.dynamic_slice(operand, corner, mlir.dense_int_array(shape))
    if tiled:
        return part
    del shape[dimension]
    return hlo.reshape(ir.RankedTensorType.get(shape, full.element_type), part)


def as_result(ctx: Any, value: ir.Value) -> list[ir.Value]:
    """What a lowering rule returns whose one result is `value`."""
    return [mlir.lower_with_sharding_in_types(ctx, value, ctx.avals_out[0])]


def _token_in_partial_auto(jaxpr: core.Jaxpr, manual: frozenset[Any] = frozenset()) -> bool:
    """Whether a shard_map in the program takes ORDER's token and leaves axes to the partitioner, `manual` being those
    that the shard_maps around it do not."""
    for equation in jaxpr.eqns:
        here = manual
        if equation.primitive.name == "shard_map":
            here = manual | equation.params["newly_manual_axes"]
            left = any(size > 1 and axis not in here for axis, size in equation.params["mesh"].shape.items())
            if left and ORDER in equation.effects:
                return True
        if any(_token_in_partial_auto(inner, here) for inner in core.jaxprs_in_params(equation.params)):
            return True
    return False


def _meshes(jaxpr: core.Jaxpr) -> set[Any]:
    """The shapes, with axes' names, of the concrete meshes of the program's shard_maps."""
    inner = [_meshes(inner) for equation in jaxpr.eqns for inner in core.jaxprs_in_params(equation.params)]
    own = [equation.params["mesh"] for equation in jaxpr.eqns if equation.primitive.name == "shard_map"]
    return set().union(*inner, (tuple(m.shape.items()) for m in own if isinstance(m, jax.sharding.Mesh)))


def _not_carried(jaxpr: core.Jaxpr) -> str | None:
    """Why the whole program, which has the effect ORDER, keeps XLA's collectives; None if it does not."""
    # That one shard_map stands inside another is not visible when a psum is traced.
    if PARTIAL_AUTO_BREAKS and _token_in_partial_auto(jaxpr):
        return "the program has a shard_map inside another shard_map"
    # JAX tells a lowering which devices it is for only if the whole program has one mesh.
    return "the program has several meshes" if len(_meshes(jaxpr)) > 1 else None


def _without_order(value: Any) -> Any:
    """A program, or a parameter of an equation, whose collectives are all XLA's own."""
    if type(value) in (tuple, list):
        return type(value)(map(_without_order, value))
    if not isinstance(value, core.Jaxpr):
        return value.replace(jaxpr=_without_order(value.jaxpr)) if isinstance(value, _ClosedJaxpr) else value
    equations = [
        equation.replace(
            effects=equation.effects - {ORDER},
            params={name: _without_order(parameter) for name, parameter in equation.params.items()},
        )
        for equation in value.eqns
    ]
    return value.replace(eqns=equations, effects=value.effects - {ORDER})


def install_order(finish_module: Callable[[ir.Module], None], left_to_xla: Callable[[str], None]) -> None:
    """Registers ORDER, makes compiled programs create its token themselves, and calls finish_module on each lowered
    module that has the effect. Some programs keep XLA's own collectives, and left_to_xla is called with the reason.

    JAX would pass the token in and out of every call of a program, in Python, which costs several times the call
    itself. Inside a program the token is needed; between programs it is not, since one thread's programs run on a
    device in the order of their dispatch.
    """
    for effect_set in _EFFECT_SETS:
        effect_set.add_type(CollectiveOrder)

    cached_lowering = pxla._cached_lowering_to_hlo
    lower_module = mlir.lower_jaxpr_to_module
    requires_devices = dispatch.jaxpr_has_prim_requiring_devices

    def cached_lowering_without_token(*args: Any, **kwargs: Any):
        outer = getattr(_lowering, "token_inside", False)
        _lowering.token_inside = True
        try:
            module, keepalive, callbacks, unordered, ordered, *rest = cached_lowering(*args, **kwargs)
        finally:
            _lowering.token_inside = outer
        return (module, keepalive, callbacks, unordered, [e for e in ordered if e != ORDER], *rest)

    def lower_module_with_token(name: str, jaxpr: Any, *args: Any, **kwargs: Any):
        if ORDER in kwargs["ordered_effects"] and (reason := _not_carried(jaxpr.jaxpr)):
            left_to_xla(reason)
            jaxpr = _without_order(jaxpr)
            kwargs["ordered_effects"] = [e for e in kwargs["ordered_effects"] if e != ORDER]
        outer = getattr(_lowering, "devices", None), getattr(_lowering, "token_inside", False)
        _lowering.devices = getattr(kwargs["axis_context"], "device_assignment", None)
        _lowering.token_inside = False
        try:
            result = lower_module(name, jaxpr, *args, **kwargs)
        finally:
            _lowering.devices, _lowering.token_inside = outer
        ordered = list(kwargs["ordered_effects"])
        if _lowering.token_inside and ORDER in ordered:
            _create_token_inside(result.module, ordered.index(ORDER))
        if ORDER in ordered:
            finish_module(result.module)
        return result

    pxla._cached_lowering_to_hlo = cached_lowering_without_token
    mlir.lower_jaxpr_to_module = lower_module_with_token

    def requires_devices_for_order(jaxpr: core.Jaxpr) -> bool:
        # requires_devices calls itself by its public name, that is this function, for the parts of the program.
        if getattr(_lowering, "in_part", False):
            return requires_devices(jaxpr)
        _lowering.in_part = True
        try:
            return (ORDER in jaxpr.effects and _not_carried(jaxpr) is None) or requires_devices(jaxpr)
        finally:
            _lowering.in_part = False

    dispatch.jaxpr_has_prim_requiring_devices = requires_devices_for_order


def _create_token_inside(module: ir.Module, position: int) -> None:
    """Replaces the `position`th token parameter of @main by a fresh token, and drops the result that returns it."""
    main = ir.SymbolTable(module.operation)["main"]
    body = main.entry_block
    parameter_attributes = [_as_dict(attributes) for attributes in main.arg_attrs]
    result_attributes = [_as_dict(attributes) for attributes in main.result_attrs]
    parameter = [i for i, a in enumerate(parameter_attributes) if "jax.token" in a][position]
    result = [i for i, a in enumerate(result_attributes) if "jax.token" in a][position]

    with module.context, main.location:
        with ir.InsertionPoint.at_block_begin(body):
            body.arguments[parameter].replace_all_uses_with(hlo.create_token())
        body.erase_argument(parameter)
        return_op = body.operations[len(body.operations) - 1]
        returned = list(return_op.operands)
        del returned[result]
        with ir.InsertionPoint(return_op):
            func_dialect.return_(returned)
        return_op.operation.erase()

        del parameter_attributes[parameter]
        del result_attributes[result]
        for attributes in parameter_attributes:
            aliased = attributes.get("tf.aliasing_output")  # the number of a result
            if aliased is not None and ir.IntegerAttr(aliased).value > result:
                attributes["tf.aliasing_output"] = ir.IntegerAttr.get(
                    aliased.type, ir.IntegerAttr(aliased).value - 1
                )
        main.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get([a.type for a in body.arguments], [v.type for v in returned])
        )
        main.attributes["arg_attrs"] = ir.ArrayAttr.get(
            [ir.DictAttr.get(attributes) for attributes in parameter_attributes]
        )
        main.attributes["res_attrs"] = ir.ArrayAttr.get(
            [ir.DictAttr.get(attributes) for attributes in result_attributes]
        )


def _as_dict(attributes: ir.Attribute) -> dict[str, ir.Attribute]:
    return {named.name: named.attr for named in ir.DictAttr(attributes)}


def distributed_client() -> Any:
    """The client of jax.distributed's key-value store, None if jax.distributed has not been initialised."""
    return distributed.global_state.client


def distributed_process() -> tuple[int, int]:
    """This process's number in jax.distributed and the number of processes."""
    return distributed.global_state.process_id, distributed.global_state.num_processes


def backend_started() -> bool:
    """Whether JAX has looked for devices; after that jax.distributed can no longer be initialised."""
    return xla_bridge.backends_are_initialized()
