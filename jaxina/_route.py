"""XLA's own collectives, those that its partitioner puts in above all, on their way to jaxina.

XLA:CPU can take its collectives from an MPI library, which it loads by name; jaxina._native is one (xla_ffi/mpi). The
library sees calls, not programs. So each run of a program with such collectives happens between two calls that say which
program it is; one at a time, and JAX waits for its end.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax

from jaxina import _native, _report
from jaxina.config import Configuration, variable
from jaxina.errors import CollectiveTimeoutError

# Names the library; read when jaxlib is loaded, so it must be set before Python starts.
LIBRARY = "MPITRAMPOLINE_LIB"
# The kinds that come.
KINDS = frozenset(("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "collective-permute"))

_COLLECTIVE = re.compile(rf" (?:{'|'.join(KINDS)})(?:-start)?\(")
# Control flow of which XLA does not know how often its body runs: processes may differ there.
_BRANCHES = re.compile(r" conditional\(| while\((?!.*known_trip_count)")

# Why XLA's own collectives stay with XLA; None if they come.
closed: str | None = "jaxina.init() has not been called"
_one_at_a_time = threading.Lock()
_patience = 0.0  # seconds that one program may wait for another


def open_route(configuration: Configuration, processes: int, backend_started: Callable[[], bool]) -> None:
    """Sends XLA's own collectives to jaxina, from the start of JAX's CPU backend to the end of the process, if that is
    possible; else `closed` says why not."""
    global closed, _patience
    _patience = configuration.timeout
    if closed is None:
        return
    closed = _obstacle(configuration, processes, backend_started)
    if closed is None:
        jax.config.update("jax_cpu_collectives_implementation", "mpi")


def _obstacle(configuration: Configuration, processes: int, backend_started: Callable[[], bool]) -> str | None:
    if processes == 1:
        return "the job has one process"
    if configuration.catch_all == "no":
        return f"{variable('catch_all')}=no"
    if backend_started():
        return "JAX's backend was started before jaxina.init()"
    if os.environ.get(LIBRARY) != _native.__file__:
        return f"{LIBRARY} is not {_native.__file__}; `jaxina run` sets it"
    if _cpu_devices() > 1:
        return "a process has several devices"
    if not _on_cpu():
        return "not on CPU"
    chosen = jax.config.jax_cpu_collectives_implementation
    return None if chosen == "gloo" else f"jax_cpu_collectives_implementation is {chosen}"


def _cpu_devices() -> int:
    """How many CPU devices this process is going to have."""
    flag = re.search(r"xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    configured = jax.config.jax_num_cpu_devices
    return configured if configured >= 0 else int(flag.group(1)) if flag else 1


def _on_cpu() -> bool:
    """Whether JAX is going to compute on CPU; False if it may find something else."""
    if jax.config.jax_platforms:
        return jax.config.jax_platforms.split(",")[0] == "cpu"
    plugins = importlib.metadata.entry_points(group="jax_plugins")
    return not plugins and not any(importlib.util.find_spec(name) for name in ("jax_plugins", "libtpu"))


def around(
    digest: Callable[[Any], str], module: Any, text: Callable[[], str], processes: list[int]
) -> Callable[[], contextlib.AbstractContextManager[None]] | None:
    """What each run of a compiled program happens in; None if the program has nothing that comes this way.

    Args:
      digest: gives the hash of a lowered program, in hexadecimal digits.
      module: the lowered program.
      text: gives its optimized HLO module.
      processes: those of its devices, at least two.
    """
    if closed is not None:
        return None
    compiled = text()
    if not _COLLECTIVE.search(compiled):
        return None
    identity = int(digest(module)[:16], 16)
    carries_sums = not _report.says_off(compiled)
    compare = bool(_BRANCHES.search(compiled))
    return lambda: _run(identity, processes, carries_sums, compare)


@contextlib.contextmanager
def _run(identity: int, processes: list[int], carries_sums: bool, compare: bool) -> Iterator[None]:
    if not _one_at_a_time.acquire(timeout=_patience):
        raise CollectiveTimeoutError(
            f"another program with collectives has been running for {_patience:g} s in this process: it may wait for "
            "this one, if a callback of it runs it"
        )
    ended = False
    try:
        _native.begin_mpi_program(identity, processes, carries_sums)
        try:
            yield
            ended = True
        finally:
            _native.end_mpi_program(compare and ended and _native.running())
    finally:
        _one_at_a_time.release()
