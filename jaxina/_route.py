"""Routes XLA's own collectives to jaxina, above all those that XLA's partitioner inserts.

XLA:CPU can take its collectives from an MPI library, which it loads by name. `jaxina._native` is such a library
(xla_ffi/mpi). The library sees calls, but not which program they belong to. So each run of a program with such
collectives is enclosed by two calls that name the program. Only one such program runs at a time in a process, and JAX
waits for its end.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax

from jaxina import _hlo, _mpi_library, _native, _override, _report, _tracing_settings, _watching
from jaxina.config import Configuration, variable
from jaxina.errors import CollectiveTimeoutError, InvalidArgumentError, UnsupportedTypeError

_log = logging.getLogger("jaxina")

# The kinds of collectives that XLA hands to the library.
KINDS = frozenset(("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "collective-permute"))

_COLLECTIVE = re.compile(rf" (?:{'|'.join(KINDS)})(?:-start)?\(")
# Control flow whose number of runs XLA does not know. Processes may run different collectives there.
_BRANCHES = re.compile(r" conditional\(| while\((?!.*known_trip_count)")

# Collectives in float16, for which XLA has no MPI type. (XLA:CPU makes float16 of float8 and float4.)
_REFUSED = re.compile(r"= [^=\n]*\bf16\[[^=\n]* (?:all-reduce|reduce-scatter|all-gather)(?:-start)?\(")

_MOST = 2**31 - 1  # MPI counts in int. XLA cuts its own numbers off to that, without a check.

# The lowering writes a program's precision into this attribute of the module, if it is not the default.
PRECISION = "jaxina.precision"
_PRECISION = re.compile(re.escape(PRECISION) + r'="([^"]*)"')

# Why XLA's own collectives stay with XLA; None if they come to jaxina.
why_closed: str | None = "jaxina.init() has not been called"
_one_at_a_time = threading.Lock()
_patience = 0.0  # how many seconds one program may wait for another
_agreed: tuple[str | None] | None = None  # what the processes have agreed on, as `agree` returns it; None before that


def agree(
    configuration: Configuration,
    processes: int,
    backend_started: Callable[[], bool],
    exchange: Callable[[str | None], list[str | None]],
) -> str | None:
    """Decides, together with all processes of the job, whether XLA's own collectives come to jaxina.

    They come in all processes or in none.

    Args:
      configuration: this process's configuration.
      processes: how many processes the job has.
      backend_started: whether JAX's backend has started in this process.
      exchange: tells all processes what prevents it in this one (None if nothing does), and returns the same of each
        process. Once it has returned, it is not called again, because the decision cannot change once JAX's backend
        runs. A later `jaxina.init` keeps the decision, also if this one fails.

    Returns:
      Why XLA's own collectives stay with XLA; None if they come to jaxina.

    Raises:
      InvalidArgumentError: JAX's backend was started after the decision that they come, but before `open_route`.
    """
    global _agreed
    if _agreed is None:
        own = _obstacle(configuration, processes, backend_started)
        if processes == 1:
            return own
        others = enumerate(exchange(own))
        _agreed = (own or next((f"process {rank}: {why}" for rank, why in others if why), None),)
    elif _agreed[0] is None and why_closed is not None and backend_started():
        raise InvalidArgumentError(
            "JAX's backend was started after an init() that failed, so this process cannot take part in XLA's own "
            "collectives as the others do. Call init() again before anything that asks for devices or computes, or set "
            f"{variable('catch_all')}=no for all processes"
        )
    return _agreed[0]


def open_route(obstacle: str | None, patience: float) -> None:
    """Sends XLA's own collectives to jaxina, unless there is an obstacle.

    It takes effect when JAX's CPU backend starts, and holds to the end of the process.

    Args:
      obstacle: what `agree` returned.
      patience: how many seconds a program may wait for another program of this process.
    """
    global why_closed, _patience
    why_closed, _patience = obstacle, patience
    if why_closed is None:
        jax.config.update("jax_cpu_collectives_implementation", "mpi")


def _obstacle(configuration: Configuration, processes: int, backend_started: Callable[[], bool]) -> str | None:
    if _override.unavailable:
        return _override.unavailable
    if processes == 1:
        return "the job has one process"
    if configuration.catch_all == "no":
        return f"{variable('catch_all')}=no"
    if backend_started():
        return "JAX's backend was started before jaxina.init()"
    if os.environ.get(_mpi_library.VARIABLE) != _mpi_library.OWN:
        return f"{_mpi_library.VARIABLE} is not {_mpi_library.OWN}; `jaxina run` sets it"
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
    """How many CPU devices this process will have, once JAX's backend starts."""
    flag = re.search(r"xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    configured: int = _configured("jax_num_cpu_devices")
    return configured if configured >= 0 else int(flag.group(1)) if flag else 1


def _on_cpu() -> bool:
    """Whether JAX will compute on CPU; False if it may find other devices."""
    platforms: str | None = _configured("jax_platforms")
    if platforms:
        return platforms.split(",")[0] == "cpu"
    plugins = importlib.metadata.entry_points(group="jax_plugins")
    return not plugins and not any(importlib.util.find_spec(name) for name in ("jax_plugins", "libtpu"))


def _too_large(one: _hlo.Collective) -> bool:
    """Whether XLA would hand MPI a number of elements, or of bytes where XLA counts these, that is too large."""
    if one.kind in ("collective-permute", "all-to-all"):
        numbers = map(_hlo.size, one.arrays)
    else:
        numbers = map(_hlo.elements, one.taken if one.kind == "all-gather" else one.arrays)
    return any(number > _MOST for number in numbers)


def around(
    identity_of: Callable[[Any], int], module: Any, text: Callable[[], str], processes: list[int]
) -> Callable[[Any], Any] | None:
    """Decides how a compiled program is run.

    Args:
      identity_of: returns the 64-bit hash of a lowered program.
      module: the lowered program.
      text: returns the program's optimized HLO module as text.
      processes: the processes of the program's devices, this one among them.

    Returns:
      A function that wraps JAX's call of the program. It encloses each run if collectives of the program come to jaxina
      this way, and only follows it for the watchdog if they stay with XLA. None if neither is needed.

    Raises:
      UnsupportedTypeError: the program reduces or gathers a type for which XLA has no MPI type.
      InvalidArgumentError: the program has a collective that is too large for MPI.
    """
    if why_closed is not None and not (_watching.asks() and len(processes) > 1):
        return None
    from jaxina._jax_compat import run  # not every JAX has what it needs

    compiled = text()
    if not _COLLECTIVE.search(compiled):
        return None
    name, own = _report.name(compiled), list(_hlo.collectives(compiled, frozenset()))
    what = _report.described_program(name, own)
    if why_closed is not None:
        return _watching.following(processes, what)
    if _REFUSED.search(compiled):
        raise UnsupportedTypeError(
            "XLA reduces or gathers a float16 array between the processes of this program, and cannot hand such arrays "
            "to jaxina. It also makes float16 of float8. Use another type, or leave XLA's own collectives with gloo: "
            "`jaxina run --no-catch-all`, JAXINA_CATCH_ALL=no or jaxina.init(catch_all=False). A sum in float16, but "
            "not in float8, may also be a jax.lax.psum in a shard_map, which jaxina carries"
        )
    if large := next((one for one in own if _too_large(one)), None):
        raise InvalidArgumentError(
            f"{large} is too large a collective: XLA's own collectives come to jaxina through MPI, which takes at "
            f"most {_MOST} elements of a sum or gather, and as many bytes of a permute or all-to-all. Divide the array "
            "into several, or leave XLA's own collectives with gloo: `jaxina run --no-catch-all`, JAXINA_CATCH_ALL=no "
            "or jaxina.init(catch_all=False)"
        )
    identity = identity_of(module)
    carries_sums = not (_report.says_off(compiled) or name == run.BROADCAST)
    moved = sorted({size for one in own if one.only_moves for size in one.sizes})
    compare = bool(_BRANCHES.search(compiled))
    found = _PRECISION.search(compiled)
    precision = [int(number) for number in found.group(1).split()] if found else _tracing_settings.Precision().numbers

    def in_run(take_token: Callable[[], Any]) -> contextlib.AbstractContextManager[None]:
        return _run(take_token, identity, processes, carries_sums, moved, precision, compare, what)

    return lambda call: run.Enclosed(call, in_run)


@contextlib.contextmanager
def _run(
    take_token: Callable[[], Any],
    identity: int,
    processes: list[int],
    carries_sums: bool,
    moved: list[int],
    precision: list[int],
    compare: bool,
    what: str,
) -> Iterator[None]:
    if not _one_at_a_time.acquire(timeout=_patience):
        raise CollectiveTimeoutError(
            f"another program with collectives has been running in this process for {_patience:g} s, so this one could "
            "not start. If a callback of that program runs this one, they wait for each other"
        )
    completed = False
    try:
        _native.begin_mpi_program(identity, processes, carries_sums, moved, precision)
        number = _watching.progress.begin(processes, what)
        try:
            yield
            completed = True
        finally:
            _watching.progress.end(number)
            _native.end_mpi_program(compare, completed)
    finally:
        token = take_token()
        if completed or token is None:
            _one_at_a_time.release()
        else:  # after an interrupt, XLA may still be at work
            threading.Thread(target=_release_after, args=(token,), daemon=True, name="jaxina-run-end").start()


def _release_after(token: Any) -> None:
    """Lets the next program run when XLA has ended this one, so that none of its calls counts as one of the next."""
    try:
        token.block_until_ready()
    except Exception as error:  # the program's own, which its caller has
        _log.debug("a program ended with %s", error)
    finally:
        _one_at_a_time.release()
