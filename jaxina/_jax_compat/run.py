"""Lets jaxina enclose each run of a compiled program in a context, or follow when it begins and ends."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import jax
from jax._src.dispatch import runtime_tokens
from jax._src.interpreters import pxla
from jax._src.interpreters.pxla import ExecuteReplicated, MeshExecutable, UnloadedMeshExecutable

# Called with a program's lowered module, a function that returns its optimized HLO module as text, and the processes of
# its devices. Returns a function that wraps what runs the program (in `Enclosed` or `Followed`), or None to leave the
# runs to JAX.
Around = Callable[[Any, Callable[[], str], list[int]], Callable[[Any], Any] | None]

BROADCAST = "jit__psum"
"""XLA's name for the program of `jax.experimental.multihost_utils.broadcast_one_to_all`.

It sums one process's data and the zeros of all others.
"""

_from_hlo = UnloadedMeshExecutable.from_hlo


def check() -> None:
    """Raises ImportError if the JAX function that is overridden here takes or returns other things than expected."""
    names = list(inspect.signature(_from_hlo).parameters)
    if names[:2] != ["name", "hlo"] or "device_list" not in names:
        raise ImportError(f"jax._src.interpreters.pxla.UnloadedMeshExecutable.from_hlo takes {', '.join(names)}")
    if "build_unsafe_call" not in MeshExecutable.__slots__:
        raise ImportError("jax._src.interpreters.pxla.MeshExecutable has no slot build_unsafe_call")
    if "xla_executable" not in ExecuteReplicated.__slots__:
        raise ImportError("jax._src.interpreters.pxla.ExecuteReplicated has no slot xla_executable")


def surround(around: Around) -> None:
    """Asks `around` how to run each program that is compiled.

    Programs of this process alone are among them, because XLA calls its collectives for them too.
    """
    signature = inspect.signature(_from_hlo)

    def from_hlo(*args: Any, **kwargs: Any) -> MeshExecutable:
        made = _from_hlo(*args, **kwargs)
        given = signature.bind(*args, **kwargs).arguments
        processes = sorted({device.process_index for device in given["device_list"] or ()})
        wrap = around(given["hlo"], lambda: made.xla_executable.hlo_modules()[0].to_string(), processes)
        if wrap is not None:
            build = made.build_unsafe_call
            made.build_unsafe_call = lambda: wrap(build())
        return made

    pxla.UnloadedMeshExecutable.from_hlo = staticmethod(from_hlo)  # type: ignore[method-assign]


class _Wrapped:
    """Calls a program in another way.

    JAX's fast path would call XLA without going through Python. It is only for JAX's own type of call, so JAX calls
    this object each time.
    """

    def __init__(self, call: Any):
        self._call = call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)


class Enclosed(_Wrapped):
    """Calls a program inside a context, and waits for its end, unless the call or the waiting is interrupted.

    Args:
      call: JAX's call.
      context: makes the context. It is given a function that returns XLA's token for the end of the run; None if XLA
        has not begun it.
    """

    def __init__(self, call: Any, context: Callable[[Callable[[], Any]], AbstractContextManager[None]]):
        super().__init__(call)
        self._context = context
        self._executable = call.xla_executable = _WithToken(call.xla_executable)

    def __call__(self, *args: Any) -> Any:
        with self._context(self._executable.take_token):
            results = self._call(*args)
            jax.block_until_ready(results)
            runtime_tokens.block_until_ready()
            return results


class Followed(_Wrapped):
    """Calls a program, and tells when each run begins and ends. It does not wait.

    Args:
      call: JAX's call.
      begin: is called before a run. It returns the run's number.
      end: is called with the number if the call fails.
      end_after: is called after the call, with the number and a function that waits for the end of the run.
    """

    def __init__(
        self,
        call: Any,
        begin: Callable[[], int],
        end: Callable[[int], None],
        end_after: Callable[[int, Callable[[], Any]], None],
    ):
        super().__init__(call)
        self._begin, self._end, self._end_after = begin, end, end_after
        self._executable = _WithToken(call.xla_executable)
        call.xla_executable = self._executable

    def __call__(self, *args: Any) -> Any:
        number = self._begin()
        try:
            results = self._call(*args)
        except BaseException:
            self._end(number)
            raise
        self._end_after(number, self._executable.take_token().block_until_ready)
        return results


class _WithToken:
    """XLA's executable, which also keeps the token that says when the run has ended."""

    def __init__(self, executable: Any):
        self._executable = executable
        self._kept = threading.local()

    def execute_sharded(self, args: Any, with_tokens: bool = False) -> Any:
        results = self._executable.execute_sharded(args, with_tokens=True)
        self._kept.token = token = results.consume_token()
        return _Consumed(results, token) if with_tokens else results

    def take_token(self) -> Any:
        token = getattr(self._kept, "token", None)
        self._kept.token = None
        return token

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executable, name)


class _Consumed:
    """The results of a run whose token was taken already."""

    def __init__(self, results: Any, token: Any):
        self._results, self._token = results, token

    def consume_token(self) -> Any:
        return self._token

    def __getattr__(self, name: str) -> Any:
        return getattr(self._results, name)
