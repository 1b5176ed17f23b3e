"""Optax transformations for updates of different ages.

Needs optax, which `jaxina` does not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxina.errors import InvalidArgumentError


class ScaleByAdaDelayState(NamedTuple):
    """How many updates there were: int32[]."""

    updates: Any


def scale_by_ada_delay(smoothness: float, growth: float) -> optax.GradientTransformationExtraArgs:
    """Steps that are smaller for later and for older gradients: 1 / (smoothness + growth sqrt(t + delay)).

    Source: AdaDelay (Sra, Yu, Li and Smola, 2016), the step of MLfabric's section 3.1 and of its proof (10.4). There,
    `smoothness` is L, the gradient's Lipschitz constant, and `growth` is c.

    Its `update` takes `delay`, int32[] or an int: how many updates the model got between the version that the gradient
    is of and this one.

    Args:
      smoothness: at least 0.
      growth: positive.

    Returns:
      A transformation that keeps the gradient's sign: follow it by `optax.scale(-1)`.

    Raises:
      InvalidArgumentError: a number is out of range. Its `update` raises it if `delay` is not given.

    Example:
      >>> import jax.numpy as jnp
      >>> import optax
      >>> from jaxina.fabric.optim import scale_by_ada_delay
      >>> optimizer = optax.chain(scale_by_ada_delay(0.0, 0.5), optax.scale(-1.0))
      >>> params = jnp.array([1.0])
      >>> updates, state = optimizer.update(jnp.array([3.0]), optimizer.init(params), params, delay=8)
      >>> print(updates)
      [-2.]
    """
    if not smoothness >= 0 or not growth > 0:
        raise InvalidArgumentError(
            f"the smoothness {smoothness} must be at least 0, and the growth {growth} must be positive"
        )

    def init(params: Any) -> ScaleByAdaDelayState:
        return ScaleByAdaDelayState(jnp.zeros((), jnp.int32))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, ScaleByAdaDelayState]:
        if "delay" not in extra:
            raise InvalidArgumentError("AdaDelay needs each update's delay: optimizer.update(..., delay=...)")
        count = optax.safe_increment(state.updates)
        step = 1 / (smoothness + growth * jnp.sqrt(count + jnp.asarray(extra["delay"], jnp.float32)))
        return jax.tree.map(lambda u: (u * step).astype(u.dtype), updates), ScaleByAdaDelayState(count)

    return optax.GradientTransformationExtraArgs(init, update)
