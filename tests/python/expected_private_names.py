"""What each private name of JAX that jaxina uses must be.

Run as a program it prints a JSON object: name -> what has become of it, or null. It does not import jaxina, which
overrides some of these names.
"""

from __future__ import annotations

import json
import types
from typing import Any

import jax
from jax.sharding import Mesh, PartitionSpec
from private_names import Expectation, begins_with, gives, has, is_a, problem, signature, takes, whose


def traced() -> Any:
    """A program with a psum over a named axis inside a shard_map."""
    mesh = Mesh(jax.devices()[:1], ("w",))
    program = jax.shard_map(
        lambda x: jax.lax.psum(x, "w"), mesh=mesh, in_specs=PartitionSpec("w"), out_specs=PartitionSpec()
    )
    return jax.make_jaxpr(program)(jax.numpy.ones(2))


def effect_added(effect_set: Any) -> Any:
    return effect_set.add_type


def psum_lowering(primitive: Any) -> Any:
    return primitive.def_effectful_abstract_eval, primitive.abstract_eval


def ordered_effects_of_a_lowering(cached: Any) -> Any:
    """The fifth of what JAX's cached lowering returns."""
    from jax._src.interpreters import pxla

    results = []
    before = pxla._cached_lowering_to_hlo  # not `cached`, which a test may have replaced

    def kept(*args: Any, **kwargs: Any) -> Any:
        results.append(cached(*args, **kwargs))
        return results[-1]

    pxla._cached_lowering_to_hlo = kept
    try:
        jax.jit(lambda x: x + 1).lower(1.0)
    finally:
        pxla._cached_lowering_to_hlo = before
    return results[0][4]


EFFECTS = "jax._src.effects"
MLIR = "jax._src.interpreters.mlir"
PXLA = "jax._src.interpreters.pxla"
HLO = "jax._src.lib.mlir.dialects.hlo"
IR = "jax._src.lib.mlir.ir"

# What jaxina does with each name. What is looked at most closely is what jaxina overrides.
EXPECTED: dict[str, Expectation] = {
    "jax._src.compiler": is_a(types.ModuleType),
    "jax._src.compiler.compile_or_get_cached": begins_with("backend", "computation", "devices"),
    "jax._src.core": is_a(types.ModuleType),
    "jax._src.core.Jaxpr": has("eqns", "effects", "replace"),
    "jax._src.core.jaxprs_in_params": gives(list, lambda found: list(found({}))),
    "jax._src.core.trace_ctx": has("trace"),
    "jax._src.core.trace_ctx.trace": is_a(object),
    "jax._src.dispatch": is_a(types.ModuleType),
    "jax._src.dispatch.jaxpr_has_prim_requiring_devices": gives(bool, lambda found: found(traced().jaxpr)),
    "jax._src.dispatch.runtime_tokens": has("block_until_ready"),
    "jax._src.dispatch.runtime_tokens.block_until_ready": takes(),
    "jax._src.distributed.global_state": has("client", "coordinator_address", "num_processes", "process_id"),
    "jax._src.distributed.global_state.client": is_a(object),
    "jax._src.distributed.global_state.coordinator_address": is_a(str | None),
    "jax._src.distributed.global_state.num_processes": is_a(int),
    "jax._src.distributed.global_state.process_id": is_a(int),
    EFFECTS: is_a(types.ModuleType),
    f"{EFFECTS}.Effect": is_a(type),
    **{
        f"{EFFECTS}.{name}_effects": gives(types.MethodType, effect_added)
        for name in (
            *("ordered", "shardable_ordered", "lowerable", "control_flow_allowed", "custom_derivatives_allowed"),
            "remat_allowed",
        )
    },
    MLIR: is_a(types.ModuleType),
    f"{MLIR}.TokenSet": has("get", "effects", "update_tokens"),
    f"{MLIR}._lowerings": is_a(dict),
    f"{MLIR}.custom_call": takes(
        "target",
        result_types=[],
        operands=[],
        has_side_effect=False,
        api_version=4,
        backend_config={},
        operand_layouts=[],
        result_layouts=[],
    ),
    f"{MLIR}.dense_int_array": takes([1]),
    f"{MLIR}.ir_attribute": takes(1),
    f"{MLIR}.ir_constant": takes(1),
    f"{MLIR}.lower_fun": takes(abs, multiple_results=False),
    f"{MLIR}.lower_jaxpr_to_module": begins_with("module_name", "jaxpr", later=("ordered_effects", "axis_context")),
    f"{MLIR}.lower_with_sharding_in_types": takes("ctx", "value", "aval"),
    f"{MLIR}.register_lowering": takes("primitive", "rule", platform="cpu"),
    f"{MLIR}.token_type": gives(object, signature),
    PXLA: is_a(types.ModuleType),
    f"{PXLA}.ExecuteReplicated": is_a(type),
    f"{PXLA}.ExecuteReplicated.__slots__": gives(str, lambda found: found[list(found).index("xla_executable")]),
    f"{PXLA}.MeshExecutable": is_a(type),
    f"{PXLA}.MeshExecutable.__slots__": gives(str, lambda found: found[list(found).index("build_unsafe_call")]),
    f"{PXLA}.UnloadedMeshExecutable": is_a(type),
    f"{PXLA}.UnloadedMeshExecutable.from_hlo": begins_with("name", "hlo", later=("device_list",)),
    f"{PXLA}._cached_lowering_to_hlo": gives(list, ordered_effects_of_a_lowering),
    "jax._src.interpreters.partial_eval.DynamicJaxprTrace": is_a(type),
    "jax._src.lax.lax.reduce_sum": takes("operand", axes=(0,)),
    "jax._src.lax.parallel._replica_groups": takes("axis context", ("w",), None),
    **{
        f"jax._src.lax.parallel.{name}": gives(tuple, psum_lowering)
        for name in ("psum_p", "psum_invariant_p", "reduce_scatter_p")
    },
    "jaxlib._jax": is_a(types.ModuleType),
    "jaxlib._jax.get_distributed_runtime_service": begins_with(*("address", "num_nodes"), later=("shutdown_timeout",)),
    "jaxlib._jax.make_gloo_tcp_collectives": begins_with("distributed_client", "hostname"),
    "jax._src.lib.mlir.dialects.func": is_a(types.ModuleType),
    "jax._src.lib.mlir.dialects.func.return_": takes([]),
    HLO: is_a(types.ModuleType),
    f"{HLO}.convert": takes("type", "operand"),
    f"{HLO}.create_token": takes(),
    f"{HLO}.dynamic_slice": takes("operand", ["start"], "sizes"),
    f"{HLO}.partition_id": takes(),
    f"{HLO}.reshape": takes("type", "operand"),
    IR: is_a(types.ModuleType),
    f"{IR}.ArrayAttr": whose("get", takes([])),
    f"{IR}.Attribute": is_a(type),
    f"{IR}.DictAttr": has("get", "__getitem__", "__len__"),
    f"{IR}.FunctionType": whose("get", takes([], [])),
    f"{IR}.InsertionPoint": has("at_block_begin"),
    f"{IR}.IntegerAttr": whose("get", takes("type", 1)),
    f"{IR}.IntegerType": whose("get_signless", takes(32)),
    f"{IR}.Module": has("operation", "context"),
    f"{IR}.RankedTensorType": whose("get", takes([], "element type")),
    f"{IR}.StringAttr": whose("get", takes("text")),
    f"{IR}.SymbolTable": has("__getitem__"),
    f"{IR}.TypeAttr": whose("get", takes("type")),
    f"{IR}.Value": has("type", "replace_all_uses_with"),
    "jax._src.sharding_impls.ShardingContext": has("device_assignment", "num_devices"),
    "jax._src.xla_bridge.backends_are_initialized": gives(bool, lambda found: found()),
}

# What jaxina does not import, but meets on its way.
MET: dict[str, Expectation] = {
    "jax._src.core.JaxprEqn": has("primitive", "params", "effects", "replace"),
    f"{MLIR}.LoweringResult": has("module"),
    f"{MLIR}.LoweringRuleContext": has(
        *("avals_in", "avals_out", "module_context", "primitive", "replace", "set_tokens_out", "tokens_in")
    ),
    f"{MLIR}.ModuleContext": has("axis_context"),
}

if __name__ == "__main__":
    print(json.dumps({name: problem(name, expectation) for name, expectation in (EXPECTED | MET).items()}))
