"""Shows each program to jaxina when JAX has compiled it or loaded it from the compilation cache."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from jax._src import compiler
from jax._src.compiler import compile_or_get_cached


def check() -> None:
    """Raises ImportError if the JAX function that is overridden here has other parameters than expected."""
    names = list(inspect.signature(compile_or_get_cached).parameters)
    if names[1:3] != ["computation", "devices"]:
        raise ImportError(f"jax._src.compiler.compile_or_get_cached takes {', '.join(names)}")


def watch(begin: Callable[[], AbstractContextManager[None]], tell: Callable[[Any, Callable[[], str]], None]) -> None:
    """Has functions called around each compilation. If one of them raises, the compilation raises the same.

    Args:
      begin: is called before each compilation, which happens in the context that it returns.
      tell: is called after the compilation of each program for several devices. It gets the lowered module, and a
        function that returns the optimized HLO module as text.
    """

    def compile_and_tell(backend: Any, computation: Any, devices: Any, *args: Any, **kwargs: Any) -> Any:
        with begin():
            executable = compile_or_get_cached(backend, computation, devices, *args, **kwargs)
        if devices.size > 1:
            tell(computation, lambda: executable.hlo_modules()[0].to_string())
        return executable

    compiler.compile_or_get_cached = compile_and_tell
