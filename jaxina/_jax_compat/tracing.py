"""Says whether Python code runs for its values, or is traced into a program that is lowered later."""

from __future__ import annotations

from jax._src.core import trace_ctx
from jax._src.interpreters.partial_eval import DynamicJaxprTrace


def check() -> None:
    """Raises AttributeError if JAX's state does not hold the present trace."""
    _ = trace_ctx.trace


def under_way() -> bool:
    """Whether what this thread calls now becomes a part of a program: inside `jax.jit`, or in a loop's body. Inside
    `jax.grad` or `jax.vmap` alone it does not."""
    trace = trace_ctx.trace
    while trace is not None and not isinstance(trace, DynamicJaxprTrace):
        trace = getattr(trace, "parent_trace", None)
    return trace is not None
