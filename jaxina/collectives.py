"""The scope in which sums are carried in another way than `jaxina.init` says.

From `jaxina.init()` to `jaxina.shutdown()` all programs that the process compiles are carried: `jax.lax.psum`,
`jax.lax.pmean`, `jax.lax.psum_scatter`, and those that differentiation inserts. Inside a scope that can be otherwise::

    with jaxina.collectives(False):              # this block keeps XLA's own collectives
        ...

    with jaxina.collectives(bucket_bytes=0):     # every psum is a collective of its own
        ...

    with jaxina.collectives(bits=64):            # small numbers beside large ones are kept
        ...
"""

from __future__ import annotations

import contextlib
from typing import Any

from jaxina import _switch
from jaxina.errors import InvalidArgumentError


class collectives(contextlib.ContextDecorator):
    """Context manager and decorator: how this thread's programs are carried inside it.

    JAX traces a program again where these settings differ from those it was traced with, so the scope counts wherever a
    jitted function is *called*. A program compiled ahead of time (`jax.jit(f).lower(...).compile()`) stays what it is.

    Args:
      carried: False keeps XLA's own collectives, True carries them, None leaves it as it is outside.
      bucket_bytes: neighbouring psums that do not depend on each other become one collective of at most this many
        bytes; 0 keeps every psum a collective of its own, None what is set outside (4 MiB at first). It must be the
        same in all processes.
      bits: how many bits float32, float16, bfloat16 and the parts of complex64 have on the wire: 32, or 64 for twice the
        bytes and twice the digits: with n workers 62 - 2 ceil(log2 n) bits of the largest number of a block, not
        31 - ceil(log2 n). None keeps what is set outside (32 at first). Other types do not change. It must be the same in
        all processes, whose sums otherwise raise MismatchError.

    Raises:
      InvalidArgumentError: `bits` is something else.
    """

    def __init__(
        self, carried: bool | None = None, *, bucket_bytes: int | None = None, bits: int | None = None
    ) -> None:
        if bits is not None and bits not in _switch.BITS:
            raise InvalidArgumentError(f"bits must be 32 or 64, not {bits!r}")
        self._bits = bits
        self._carried = carried
        self._bucket_bytes = bucket_bytes
        self._entered: list[contextlib.ExitStack] = []

    def __enter__(self) -> collectives:
        with contextlib.ExitStack() as stack:
            if self._carried is not None:
                stack.enter_context(_switch.carrying(self._carried))
            if self._bucket_bytes is not None:
                stack.enter_context(_switch.bucket_bytes(self._bucket_bytes))
            if self._bits is not None:
                stack.enter_context(_switch.bits(self._bits))
            self._entered.append(stack.pop_all())
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self._entered.pop().__exit__(kind, error, traceback)

    def _recreate_cm(self) -> collectives:
        return collectives(self._carried, bucket_bytes=self._bucket_bytes, bits=self._bits)
