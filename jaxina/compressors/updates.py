"""One update: the reductions of all leaves, from the state before to the state after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from jaxina.compressors import axes, checks, feedback, leaf_states, non_finite, rounds
from jaxina.compressors.context import Context
from jaxina.compressors.messages import Arrays, Exchange, LeafReduction

if TYPE_CHECKING:
    from jaxina.compressors.base import Compressor


def run(
    compressor: Compressor, gradients: Any, state: dict[str, Any], axis_name: Any, params: Any, learning_rate: Any
) -> tuple[Any, dict[str, Any], list[Exchange]]:
    """Does what `Compressor.update_with_traffic` says."""
    gradients = checks.gradients(gradients)
    leaves, structure = jax.tree.flatten(gradients)
    workers, me = axes.place(axis_name)
    axes.check_varying(gradients, axis_name)
    feedback.check_rate(learning_rate)
    keys = leaf_states.keys(jax.random.fold_in(state["key"], state["step"]), len(leaves))
    states = leaf_states.by_leaf(state["leaves"], structure)
    checks.states(compressor.first_of_leaf, leaves, states, state["key"])
    of_params = leaf_states.like(params, structure) if params is not None else [None] * len(leaves)

    def start(leaf: rounds.Leaf) -> LeafReduction:
        context = Context(
            leaf.x.shape,
            workers,
            leaf.key,
            me,
            step=state["step"],
            params=leaf.params,
            learning_rate=learning_rate,
            wire_block=axes.wire_block(leaf.x, axis_name),
        )
        return _reduce_any(compressor, leaf.x, leaf.state, context)

    floats = [x.astype(jnp.float32) for x in leaves]
    own = [rounds.Leaf(*of_leaf) for of_leaf in zip(floats, states, keys, of_params, strict=True)]
    results, exchanges = rounds.run(start, own, axis_name)
    means = [mean.astype(x.dtype) for (mean, _), x in zip(results, leaves, strict=True)]
    following = leaf_states.by_name([leaf for _, leaf in results], state["leaves"], structure)
    next_state = {"key": state["key"], "step": state["step"] + 1, "leaves": following}
    return jax.tree.unflatten(structure, means), next_state, exchanges


def _reduce_any(compressor: Compressor, x: jax.Array, state: Arrays, context: Context) -> LeafReduction:
    """Runs `Compressor.reduce` for a leaf that may be empty, or hold values that are not finite."""
    if x.size == 0:
        return x, state

    owed = state["memory"] if compressor.error_feedback else None
    rate = context.learning_rate if compressor.error_feedback else None
    if owed is not None and rate is not None:
        owed = feedback.of_gradients(owed, rate)

    def reduce(x: jax.Array, state: Arrays, context: Context) -> LeafReduction:
        """Gives `Compressor.reduce` a memory of gradients, where the state's is one of updates."""
        if rate is None or owed is None:
            return (yield from compressor.reduce(x, state, context))
        mean, following = yield from compressor.reduce(x, {**state, "memory": owed}, context)
        memory = feedback.of_updates(following["memory"], rate, state["memory"])
        return mean, {**following, "memory": memory}

    if compressor.carries_non_finite:
        return (yield from reduce(x, state, context))
    if compressor.mean_shows_non_finite(context):
        return (yield from non_finite.looked_at(reduce, x, state, context))
    return (yield from non_finite.flagged(reduce, x, state, context, owed))
