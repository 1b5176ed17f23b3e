"""Handles whole programs on their way through JAX: gives them their token, or leaves them to XLA."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
from jax._src import core, dispatch
from jax._src.core import Jaxpr, jaxprs_in_params
from jax._src.dispatch import jaxpr_has_prim_requiring_devices
from jax._src.interpreters import mlir, pxla
from jax._src.interpreters.mlir import lower_jaxpr_to_module
from jax._src.interpreters.pxla import _cached_lowering_to_hlo
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import func as func_dialect
from jax._src.lib.mlir.dialects import hlo
from jax._src.sharding_impls import ShardingContext

from jaxina._jax_compat.effect import ORDER, register
from jaxina._jax_compat.lowering import PARTIAL_AUTO_BREAKS, as_dict, note, under_way

# From JAX 0.11 on, a closed program is itself a Jaxpr; JAX 0.12 no longer has the name ClosedJaxpr.
_ClosedJaxpr: Any = getattr(core, "ClosedJaxpr", Jaxpr)


def _token_in_partial_auto(jaxpr: Jaxpr, manual: frozenset[Any] = frozenset()) -> bool:
    """Whether a shard_map in the program takes ORDER's token and leaves mesh axes to the partitioner.

    `manual` are the axes that the enclosing shard_maps take from the partitioner.
    """
    for equation in jaxpr.eqns:
        here = manual
        if equation.primitive.name == "shard_map":
            here = manual | equation.params["newly_manual_axes"]
            left = any(size > 1 and axis not in here for axis, size in equation.params["mesh"].shape.items())
            if left and ORDER in equation.effects:
                return True
        if any(_token_in_partial_auto(inner, here) for inner in jaxprs_in_params(equation.params)):
            return True
    return False


def _meshes(jaxpr: Jaxpr) -> set[Any]:
    """The shapes, with the names of the axes, of the concrete meshes of the program's shard_maps."""
    inner = [_meshes(inner) for equation in jaxpr.eqns for inner in jaxprs_in_params(equation.params)]
    own = [equation.params["mesh"] for equation in jaxpr.eqns if equation.primitive.name == "shard_map"]
    return set().union(*inner, (tuple(m.shape.items()) for m in own if isinstance(m, jax.sharding.Mesh)))


def _not_carried(jaxpr: Jaxpr) -> str | None:
    """Why a whole program that has the effect ORDER keeps XLA's collectives; None if jaxina carries it."""
    # When a psum is traced, it cannot be seen whether its shard_map is inside another one.
    if PARTIAL_AUTO_BREAKS and _token_in_partial_auto(jaxpr):
        return "the program has a shard_map inside another shard_map"
    # JAX tells the lowering which devices the program is for only if the whole program has one mesh.
    return "the program has several meshes" if len(_meshes(jaxpr)) > 1 else None


def _without_order(value: Any) -> Any:
    """Copies a program, or a parameter of an equation, without the effect ORDER: all its collectives are XLA's own."""
    if type(value) in (tuple, list):
        return type(value)(map(_without_order, value))
    if not isinstance(value, Jaxpr):
        return value.replace(jaxpr=_without_order(value.jaxpr)) if isinstance(value, _ClosedJaxpr) else value
    equations = [
        equation.replace(
            effects=equation.effects - {ORDER},
            params={name: _without_order(parameter) for name, parameter in equation.params.items()},
        )
        for equation in value.eqns
    ]
    return value.replace(eqns=equations, effects=value.effects - {ORDER})


def check() -> None:
    """Raises ImportError if the JAX function that is overridden here has other parameters than expected."""
    wanted = {"ordered_effects", "axis_context"}
    if missing := wanted - set(inspect.signature(lower_jaxpr_to_module).parameters):
        raise ImportError(f"jax._src.interpreters.mlir.lower_jaxpr_to_module takes no {min(missing)}")
    if not hasattr(ShardingContext, "num_devices"):
        raise ImportError("jax._src.sharding_impls.ShardingContext has no num_devices")


def install(
    finish_module: Callable[[ir.Module], None],
    reasons: str,
    separator: str,
    all_stay: Callable[[], str | None],
    settings: Callable[[], dict[str, str]],
) -> None:
    """Registers the effect ORDER, and makes compiled programs create its token themselves.

    JAX would pass the token in and out of every call of a program, in Python. That costs several times the call itself.
    The token is needed inside a program, but not between programs: the programs of one thread run on a device in the
    order in which they were dispatched.

    Args:
      finish_module: is called with each lowered module that has the effect.
      reasons: name of the module's frontend attribute that gets the reasons why sums of the program stay with XLA.
      separator: separates the reasons.
      all_stay: is called when the lowering of a program for several devices begins. It returns why all its sums stay
        with XLA, also those that XLA's partitioner inserts later; None if not all do.
      settings: is called then, too. It returns more frontend attributes of the module.
    """
    register()

    def cached_lowering_without_token(*args: Any, **kwargs: Any) -> Any:
        outer = under_way.token_inside
        under_way.token_inside = True
        try:
            module, keepalive, callbacks, unordered, ordered, *rest = _cached_lowering_to_hlo(*args, **kwargs)
        finally:
            under_way.token_inside = outer
        return (module, keepalive, callbacks, unordered, [e for e in ordered if e != ORDER], *rest)

    def lower_module_with_token(name: str, jaxpr: Any, *args: Any, **kwargs: Any) -> Any:
        outer = under_way.devices, under_way.token_inside, under_way.reasons
        token_inside, under_way.token_inside = under_way.token_inside, False
        under_way.devices = getattr(kwargs["axis_context"], "device_assignment", None)
        under_way.reasons = {}
        attributes: dict[str, str] = {}
        try:
            if getattr(kwargs["axis_context"], "num_devices", 1) > 1:
                attributes = settings()
                if all_reason := all_stay():
                    note(all_reason)
            if ORDER in kwargs["ordered_effects"] and (reason := _not_carried(jaxpr.jaxpr)):
                note(reason)
                jaxpr = _without_order(jaxpr)
                kwargs["ordered_effects"] = [e for e in kwargs["ordered_effects"] if e != ORDER]
            result = lower_jaxpr_to_module(name, jaxpr, *args, **kwargs)
            if under_way.reasons:
                attributes[reasons] = separator.join(under_way.reasons)
            for attribute, value in attributes.items():
                _set_frontend_attribute(result.module, attribute, value)
        finally:
            under_way.devices, under_way.token_inside, under_way.reasons = outer
        ordered = list(kwargs["ordered_effects"])
        if token_inside and ORDER in ordered:
            _create_token_inside(result.module, ordered.index(ORDER))
        if ORDER in ordered:
            finish_module(result.module)
        return result

    pxla._cached_lowering_to_hlo = cached_lowering_without_token  # type: ignore[assignment]
    mlir.lower_jaxpr_to_module = lower_module_with_token  # type: ignore[assignment]

    def requires_devices_for_order(jaxpr: Jaxpr) -> bool:
        # JAX's function calls itself for the parts of the program, by its name in the module, which now is this
        # function.
        if getattr(under_way, "in_part", False):
            return jaxpr_has_prim_requiring_devices(jaxpr)
        under_way.in_part = True
        try:
            return (ORDER in jaxpr.effects and _not_carried(jaxpr) is None) or jaxpr_has_prim_requiring_devices(jaxpr)
        finally:
            under_way.in_part = False

    dispatch.jaxpr_has_prim_requiring_devices = requires_devices_for_order  # type: ignore[assignment]


def _set_frontend_attribute(module: ir.Module, name: str, value: str) -> None:
    """Sets a frontend attribute of the module. XLA copies these attributes to the compiled module."""
    attributes, key = module.operation.attributes, "mhlo.frontend_attributes"
    with module.context:
        present = as_dict(attributes[key]) if key in attributes else {}
        attributes[key] = ir.DictAttr.get({**present, name: ir.StringAttr.get(value)})


def _create_token_inside(module: ir.Module, position: int) -> None:
    """Replaces token parameter number `position` of @main by a new token, and drops the result that returns it."""
    main: Any = ir.SymbolTable(module.operation)["main"]
    body = main.entry_block
    parameter_attributes = [as_dict(attributes) for attributes in main.arg_attrs]
    result_attributes = [as_dict(attributes) for attributes in main.result_attrs]
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
                attributes["tf.aliasing_output"] = ir.IntegerAttr.get(aliased.type, ir.IntegerAttr(aliased).value - 1)
        main.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get([a.type for a in body.arguments], [v.type for v in returned])
        )
        main.attributes["arg_attrs"] = ir.ArrayAttr.get(
            [ir.DictAttr.get(attributes) for attributes in parameter_attributes]
        )
        main.attributes["res_attrs"] = ir.ArrayAttr.get(
            [ir.DictAttr.get(attributes) for attributes in result_attributes]
        )
