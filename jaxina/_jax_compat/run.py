"""Lets jaxina enclose each run of a compiled program in a context."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import jax
from jax._src.dispatch import runtime_tokens
from jax._src.interpreters import pxla
from jax._src.interpreters.pxla import MeshExecutable, UnloadedMeshExecutable

# Called with a program's lowered module, a function that returns its optimized HLO module as text, and the processes of
# its devices. Returns a function that makes a context for each run, or None to leave the runs to JAX.
Around = Callable[[Any, Callable[[], str], list[int]], Callable[[], AbstractContextManager[None]] | None]

_from_hlo = UnloadedMeshExecutable.from_hlo


def check() -> None:
    """Raises ImportError if the JAX function that is overridden here takes or returns other things than expected."""
    names = list(inspect.signature(_from_hlo).parameters)
    if names[:2] != ["name", "hlo"] or "device_list" not in names:
        raise ImportError(f"jax._src.interpreters.pxla.UnloadedMeshExecutable.from_hlo takes {', '.join(names)}")
    if "build_unsafe_call" not in MeshExecutable.__slots__:
        raise ImportError("jax._src.interpreters.pxla.MeshExecutable has no slot build_unsafe_call")


def surround(around: Around) -> None:
    """Asks `around` for a context for each program that is compiled for this process, in a job of several processes.

    Programs of this process alone are among them, because XLA calls its collectives for them too.
    """
    signature = inspect.signature(_from_hlo)

    def from_hlo(*args: Any, **kwargs: Any) -> MeshExecutable:
        made = _from_hlo(*args, **kwargs)
        given = signature.bind(*args, **kwargs).arguments
        processes = sorted({device.process_index for device in given["device_list"] or ()})
        if jax.process_count() > 1 and jax.process_index() in processes:
            context = around(given["hlo"], lambda: made.xla_executable.hlo_modules()[0].to_string(), processes)
            if context is not None:
                build = made.build_unsafe_call
                made.build_unsafe_call = lambda: _Surrounded(build(), context)
        return made

    pxla.UnloadedMeshExecutable.from_hlo = staticmethod(from_hlo)  # type: ignore[method-assign]


class _Surrounded:
    """Calls a program inside a context.

    JAX's fast path would call XLA without going through Python. It is only for JAX's own type of call, so JAX calls
    this object each time.
    """

    def __init__(self, call: Any, context: Callable[[], AbstractContextManager[None]]):
        self._call, self._context = call, context

    def __call__(self, *args: Any) -> Any:
        with self._context():
            results = self._call(*args)
            jax.block_until_ready(results)
            runtime_tokens.block_until_ready()
            return results

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)
