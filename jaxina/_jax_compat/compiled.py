"""What XLA has made of a program, seen when it is compiled or comes out of the compilation cache."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from jax._src import compiler
from jax._src.compiler import compile_or_get_cached


def check() -> None:
    """Raises ImportError if JAX's compilation does not take what is overridden here."""
    names = list(inspect.signature(compile_or_get_cached).parameters)
    if names[1:3] != ["computation", "devices"]:
        raise ImportError(f"jax._src.compiler.compile_or_get_cached takes {', '.join(names)}")


def watch(begin: Callable[[], None], tell: Callable[[Any, Callable[[], str]], None]) -> None:
    """Calls begin() before each compilation, and tell(module, text) with each program for several devices: its lowered
    module, and what gives its optimized HLO module. What they raise, the compilation raises."""

    def compile_and_tell(backend: Any, computation: Any, devices: Any, *args: Any, **kwargs: Any) -> Any:
        begin()
        executable = compile_or_get_cached(backend, computation, devices, *args, **kwargs)
        if devices.size > 1:
            tell(computation, lambda: executable.hlo_modules()[0].to_string())
        return executable

    compiler.compile_or_get_cached = compile_and_tell
