"""The effect that keeps a program's collectives in their order."""

from __future__ import annotations

from jax._src import effects


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


def register() -> None:
    """Makes the effect known to JAX."""
    for effect_set in _EFFECT_SETS:
        effect_set.add_type(CollectiveOrder)
