"""The switch that sends `jax.lax.psum` through the aggregator.

Three ways to throw it, all of them part of JAX's compilation cache keys::

    with jaxina.collectives():      # this thread, this block; also a decorator
        train_step(...)

    jaxina.enable()                 # the whole process

    jaxina.psum(x, "workers")       # this one call

`jax.lax.psum`, `jax.lax.pmean`, `jax.lax.psum_scatter`, and those that differentiation inserts are then carried by
jaxina. The switch counts when a program is *traced*; it may stay on or be off when the compiled program runs.
"""

from __future__ import annotations

import contextlib
from typing import Any

import jax

from jaxina import _jax_compat as compat
from jaxina import _lowering
from jaxina.errors import from_exception


class collectives(contextlib.ContextDecorator):  # noqa: N801 (used like a function)
    """Context manager and decorator: psums traced by this thread inside it are carried by jaxina.

    A `jax.errors.JaxRuntimeError` that jaxina caused leaves it as the typed class of `jaxina.errors`. JAX dispatches
    asynchronously: an error may surface only where a result is used; if that is outside, use
    `jaxina.errors.from_exception`.

    Args:
      bucket_bytes: neighbouring psums that do not depend on each other become one collective of at most this many
        bytes; 0 keeps every psum a collective of its own, None what is set outside (4 MiB at first). The value counts when a program is lowered, and must be the
        same in all processes.
    """

    def __init__(self, *, bucket_bytes: int | None = None) -> None:
        self._bucket_bytes = bucket_bytes
        self._entered: list[contextlib.ExitStack] = []

    def __enter__(self) -> collectives:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_lowering.switch(True))
            if self._bucket_bytes is not None:
                stack.enter_context(_lowering.bucket_bytes(self._bucket_bytes))
            self._entered.append(stack.pop_all())
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self._entered.pop().__exit__(kind, error, traceback)
        # jaxlib 0.10 raises ValueError if the program fails before its dispatch returns.
        if isinstance(error, (compat.JaxRuntimeError, ValueError)):
            cause = from_exception(error)
            if cause is not None and cause is not error:
                raise cause from error

    def _recreate_cm(self) -> collectives:
        return collectives(bucket_bytes=self._bucket_bytes)


def enable() -> None:
    """Switches jaxina on for all threads of this process, for programs traced from now on."""
    _lowering.switch.set_global(True)


def disable() -> None:
    """Undoes `enable`."""
    _lowering.switch.set_global(False)


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """`jax.lax.psum` with the switch on for this call.

    Args:
      x: pytree of arrays.
      axis_name: name or tuple of names of mapped axes.
      axis_index_groups: as for `jax.lax.psum`.

    Returns:
      The pytree of sums, with the shapes, dtypes and varying axes that `jax.lax.psum` gives.

    Raises:
      NotInitializedError: when the program is compiled, if `jaxina.init` has not been called.
    """
    with _lowering.switch(True):
        return jax.lax.psum(x, axis_name, axis_index_groups=axis_index_groups)


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """`jax.lax.pmean` with the switch on for this call; arguments and errors as for `psum`."""
    with _lowering.switch(True):
        return jax.lax.pmean(x, axis_name, axis_index_groups=axis_index_groups)


def psum_scatter(
    x: Any, axis_name: Any, *, scatter_dimension: int = 0, axis_index_groups: Any = None, tiled: bool = False
) -> Any:
    """`jax.lax.psum_scatter` with the switch on for this call; arguments as there, errors as for `psum`.

    Bit for bit the device's part of `psum`. As many bytes leave a worker as for `psum`, and as many come back.
    """
    with _lowering.switch(True):
        return jax.lax.psum_scatter(
            x,
            axis_name,
            scatter_dimension=scatter_dimension,
            axis_index_groups=axis_index_groups,
            tiled=tiled,
        )


def fallbacks() -> dict[str, int]:
    """Why psums and psum_scatters traced with the switch on stayed with XLA's own collective: reason -> number traced."""
    return dict(_lowering.fallbacks)
