"""Selects the elements of largest magnitude. On CPUs jaxina's native code does it, elsewhere XLA.

XLA's CPU backend takes several times as long (`benchmarks/jax/top_k.py`).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxina import _native

TARGET = "jaxina_top_k"

jax.ffi.register_ffi_target(TARGET, _native.top_k_cpu(), platform="cpu")


def largest_places(flat: jax.Array, k: int) -> jax.Array:
    """Finds the k elements of largest magnitude.

    Args:
      flat: float32[d]. It is not differentiated.
      k: at most d.

    Returns:
      int32[k], the elements' indices: the largest first, and of equal ones those with lower indices first.
    """
    return jax.lax.platform_dependent(
        jax.lax.stop_gradient(flat), cpu=lambda x: _native_places(x, k), default=lambda x: _xla_places(x, k)
    )


def _native_places(flat: jax.Array, k: int) -> jax.Array:
    places = jax.ffi.ffi_call(TARGET, jax.ShapeDtypeStruct((k,), jnp.int32), vmap_method="broadcast_all")(flat)
    varying = tuple(jax.typeof(flat).manual_axis_type.varying)  # a foreign call's result varies over nothing
    return jax.lax.pcast(places, varying, to="varying") if varying else places


def _xla_places(flat: jax.Array, k: int) -> jax.Array:
    return jax.lax.top_k(jnp.abs(flat), k)[1]
