"""A scope that changes whether and how sums are carried.

From `jaxina.init` to `jaxina.shutdown`, jaxina carries the sums of all programs that the process compiles:
`jax.lax.psum`, `jax.lax.pmean`, `jax.lax.psum_scatter`, and the sums that differentiation inserts. Inside a scope this
can differ::

    with jaxina.collectives(False):              # this block keeps XLA's own collectives
        ...

    with jaxina.collectives(bucket_bytes=0):     # every psum is a collective of its own
        ...

    with jaxina.collectives(bits=64):            # small numbers beside large ones are kept
        ...

    with jaxina.collectives(bits=8):             # large arrays are sent in a quarter of the bytes
        ...
"""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import threading
from typing import Any

from jaxina import _override, _tracing_settings, config
from jaxina.errors import InvalidArgumentError


class collectives(contextlib.ContextDecorator):
    """Changes how this thread's programs are carried. A context manager and a decorator.

    The scope counts where a jitted function is *called*: JAX traces a program again if these settings differ from those
    it was traced with. A program compiled ahead of time (``jax.jit(f).lower(...).compile()``) keeps the settings it was
    lowered with. Inside a function that is being traced (`jax.jit`, a loop's body), only `carried` can be set: the
    others count when the whole program is lowered. Scopes nest, and one object may be entered several times.

    Args:
      carried: False leaves sums to XLA's own collectives, True carries them, None keeps the setting outside.
      bucket_bytes: jaxina merges neighbouring psums that do not depend on each other into one collective of at most
        this many bytes. 0 merges nothing. None keeps the setting outside (4 MiB unless set). All processes must use the
        same value.
      bits: the bits that a float32, float16 or bfloat16 number, or a part of a complex64 number, takes on the wire: 8,
        16, 32 or 64. With n workers, 32 keeps 31 - ceil(log2 n) bits of a block's largest number. 64 keeps 62 - 2
        ceil(log2 n) bits and sends twice the bytes. 16 and 8 send a half and a quarter of the bytes. Then each number
        is rounded to a multiple of 2^-15 or 2^-7 of the power of two above its block's largest, and the sum to a
        multiple of 2^ceil(log2 n) times that (`jaxina.numerics`). None keeps the setting outside (32 unless set). Other
        dtypes do not change.
      rounding: "nearest" rounds 8 and 16 bits to the nearest number, ties to even. Small numbers beside large ones then
        become 0. "stochastic" rounds up or down at random, so that the expected sum is the exact one. None keeps the
        setting outside ("nearest" unless set).
      smallest: arrays of fewer elements take 32 bits instead of 8 or 16: losses, norms and other statistics. None keeps
        the setting outside (4096 unless set).
      seed: of the random numbers, from 0 to 2^64 - 1. The same seed gives the same sums in the next run. None keeps the
        setting outside (0 unless set).

    All processes must use the same `bits`, `rounding`, `smallest` and `seed`. Otherwise their sums raise
    `jaxina.errors.MismatchError`.

    Raises:
      InvalidArgumentError: `carried`, `bucket_bytes`, `bits`, `rounding`, `smallest` or `seed` is none of these values.
        Or a scope that changes another setting than `carried` is entered inside a function that is being traced.

    Example:
      `xla_total` keeps XLA's own all-reduce. The report gives the scope as the reason:

      >>> import jax
      >>> import jax.numpy as jnp
      >>> import jaxina
      >>> from jax.sharding import Mesh, PartitionSpec as P
      >>> jax.config.update("jax_num_cpu_devices", 4)
      >>> def xla_total(x):
      ...     return jax.lax.psum(x, "workers")
      >>> with jaxina.init():
      ...     mesh = Mesh(jax.devices(), ("workers",))
      ...     summed = jax.jit(jax.shard_map(xla_total, mesh=mesh, in_specs=P("workers"), out_specs=P()))
      ...     with jaxina.collectives(False):
      ...         print(summed(jnp.arange(4.0)))
      ...     print(jaxina.report().stays)
      [6.]
      {'jaxina.collectives(False)': 1}
    """

    def __init__(
        self,
        carried: bool | None = None,
        *,
        bucket_bytes: int | None = None,
        bits: int | None = None,
        rounding: str | None = None,
        smallest: int | None = None,
        seed: int | None = None,
    ) -> None:
        if not isinstance(carried, bool | None):
            raise InvalidArgumentError(
                f"carried must be True, False or None, not {carried!r}; bits=8 sends narrow words"
            )
        if bits is not None and _integer(bits) not in config.BITS:
            raise InvalidArgumentError(f"bits must be 8, 16, 32 or 64, not {bits!r}")
        if rounding is not None and rounding not in config.ROUNDINGS:
            raise InvalidArgumentError(f"rounding must be 'nearest' or 'stochastic', not {rounding!r}")
        given = {
            "bits": _integer(bits),
            "rounding": rounding,
            "smallest": _below(2**63, "smallest", smallest),
            "seed": _below(2**64, "seed", seed),
        }
        self._precision: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        self._carried = carried
        self._bucket_bytes = _below(2**63, "bucket_bytes", bucket_bytes)
        self._entered = _Entered()

    def __enter__(self) -> collectives:
        with contextlib.ExitStack() as stack:
            if self._carried is not None:
                stack.enter_context(_tracing_settings.carrying(self._carried))
            if self._bucket_bytes is not None:
                self._enter(stack, _tracing_settings.bucket_bytes, self._bucket_bytes)
            if self._precision:
                precision = dataclasses.replace(_tracing_settings.precision.value, **self._precision)
                self._enter(stack, _tracing_settings.precision, precision)
            self._entered.stacks.append(stack.pop_all())
        return self

    def _enter(self, stack: contextlib.ExitStack, setting: Any, value: Any) -> None:
        """Sets what is read when a program is lowered.

        Raises:
          InvalidArgumentError: a function is being traced, so its program is lowered after this scope.
        """
        if value != setting.value and _traced():
            named = {"bucket_bytes": self._bucket_bytes, **self._precision}
            given = ", ".join(f"{name}={value!r}" for name, value in named.items() if value is not None)
            raise InvalidArgumentError(
                f"jaxina.collectives({given}) is entered inside a function that JAX traces, and would have no effect "
                "there: put it around the call of the jitted function"
            )
        stack.enter_context(setting(value))

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self._entered.stacks.pop().__exit__(kind, error, traceback)

    def _recreate_cm(self) -> collectives:
        return collectives(self._carried, bucket_bytes=self._bucket_bytes, **self._precision)


class _Entered(threading.local):
    """What this thread leaves again. Several threads may be inside one object at the same time."""

    def __init__(self) -> None:
        self.stacks: list[contextlib.ExitStack] = []


def _traced() -> bool:
    """Whether this thread traces a program. Where jaxina could not override JAX, its settings do not matter."""
    if _override.unavailable is not None:
        return False
    from jaxina._jax_compat import tracing

    return tracing.under_way()


def _integer(value: Any) -> int | None:
    """The integer, NumPy's as well. None for what is none: a float would be cut off on its way to the engine."""
    try:
        return operator.index(value)
    except TypeError:
        return None


def _below(bound: int, name: str, value: Any) -> int | None:
    """The setting as an integer, or None if it is not set.

    Raises:
      InvalidArgumentError: it is no integer from 0 to below `bound`.
    """
    if value is None:
        return None
    integer = _integer(value)
    if integer is None or not 0 <= integer < bound:
        raise InvalidArgumentError(f"{name} must be an integer from 0 to below {bound}, not {value!r}")
    return integer
