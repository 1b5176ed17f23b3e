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

from jaxina import _native, _report, _seat, _switch
from jaxina.config import Configuration, variable
from jaxina.errors import CollectiveTimeoutError, UnsupportedTypeError

# Names the library; read when jaxlib is loaded, so it must be set before Python starts.
LIBRARY = "MPITRAMPOLINE_LIB"
# The kinds that come.
KINDS = frozenset(("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "collective-permute"))

_COLLECTIVE = re.compile(rf" (?:{'|'.join(KINDS)})(?:-start)?\(")
# Control flow of which XLA does not know how often its body runs: processes may differ there.
_BRANCHES = re.compile(r" conditional\(| while\((?!.*known_trip_count)")

# Collectives in a type that XLA's calls of an MPI library do not have. XLA:CPU makes float16 of float8 for an all-gather.
_REFUSED = re.compile(r"= [^=\n]*\bf16\[[^=\n]* (?:all-reduce|reduce-scatter|all-gather)(?:-start)?\(")

# Why XLA's own collectives stay with XLA; None if they come.
closed: str | None = "jaxina.init() has not been called"
_one_at_a_time = threading.Lock()
_patience = 0.0  # seconds that one program may wait for another
_decided = False


def agree(
    configuration: Configuration,
    processes: int,
    backend_started: Callable[[], bool],
    tell_all: Callable[[str | None], list[str | None]],
) -> str | None:
    """Why XLA's own collectives stay with XLA in one process of the job, and so in all; None if they come to jaxina.

    Args:
      tell_all: tells all processes what is in this one's way, if anything, and returns what is in each one's. It is
        called once in a process: JAX's backend does not change.
    """
    if _decided:
        return closed
    own = _obstacle(configuration, processes, backend_started)
    if processes == 1:
        return own
    others = enumerate(tell_all(own))
    return own or next((f"process {rank}: {why}" for rank, why in others if why), None)


def open_route(obstacle: str | None, patience: float) -> None:
    """Sends XLA's own collectives to jaxina, from the start of JAX's CPU backend to the end of the process, unless there is
    an obstacle. A program waits `patience` seconds for another of this process."""
    global closed, _patience, _decided
    closed, _patience, _decided = obstacle, patience, True
    if closed is None:
        jax.config.update("jax_cpu_collectives_implementation", "mpi")


def _obstacle(configuration: Configuration, processes: int, backend_started: Callable[[], bool]) -> str | None:
    if _seat.empty:
        return _seat.empty
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
    chosen = _configured("jax_cpu_collectives_implementation")
    return None if chosen == "gloo" else f"jax_cpu_collectives_implementation is {chosen}"


def _configured(name: str) -> Any:
    """A value of JAX's configuration."""
    return getattr(jax.config, name)


def _cpu_devices() -> int:
    """How many CPU devices this process is going to have."""
    flag = re.search(r"xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    configured: int = _configured("jax_num_cpu_devices")
    return configured if configured >= 0 else int(flag.group(1)) if flag else 1


def _on_cpu() -> bool:
    """Whether JAX is going to compute on CPU; False if it may find something else."""
    platforms: str | None = _configured("jax_platforms")
    if platforms:
        return platforms.split(",")[0] == "cpu"
    plugins = importlib.metadata.entry_points(group="jax_plugins")
    return not plugins and not any(importlib.util.find_spec(name) for name in ("jax_plugins", "libtpu"))


def around(
    identity_of: Callable[[Any], int], module: Any, text: Callable[[], str], processes: list[int]
) -> Callable[[], contextlib.AbstractContextManager[None]] | None:
    """What each run of a compiled program happens in; None if the program has nothing that comes this way.

    Args:
      identity_of: gives the hash of a lowered program, 64 bits.
      module: the lowered program.
      text: gives its optimized HLO module.
      processes: those of its devices, this one among them.

    Raises:
      UnsupportedTypeError: it reduces or gathers what XLA cannot give to an MPI library.
    """
    if closed is not None:
        return None
    compiled = text()
    if not _COLLECTIVE.search(compiled):
        return None
    if _REFUSED.search(compiled):
        raise UnsupportedTypeError(
            "XLA reduces or gathers a float16 (or float8) array between processes in this program, for which it has no MPI "
            "type. Use another type, reduce by jax.lax.psum in a shard_map, or leave XLA's own collectives with gloo: "
            "`jaxina run --no-catch-all`, JAXINA_CATCH_ALL=no or jaxina.init(catch_all=False)"
        )
    identity = identity_of(module)
    carries_sums = not _report.says_off(compiled)
    compare = bool(_BRANCHES.search(compiled))
    bits = _switch.bits.value
    return lambda: _run(identity, processes, carries_sums, bits, compare)


@contextlib.contextmanager
def _run(identity: int, processes: list[int], carries_sums: bool, bits: int, compare: bool) -> Iterator[None]:
    if not _one_at_a_time.acquire(timeout=_patience):
        raise CollectiveTimeoutError(
            f"another program with collectives has been running for {_patience:g} s in this process: it may wait for "
            "this one, if a callback of it runs it"
        )
    completed = False
    try:
        _native.begin_mpi_program(identity, processes, carries_sums, bits)
        try:
            yield
            completed = True
        finally:
            _native.end_mpi_program(compare, completed)
    finally:
        _one_at_a_time.release()
