"""The watchdog of this process (`jaxina.watchdog`), between JAX, the engine and the job."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from jaxina import _native, _report, joining
from jaxina.config import Configuration
from jaxina.control.topology import JaxTopology, this_place
from jaxina.watchdog.progress import Progress, Tokens, engine_progress
from jaxina.watchdog.stacks import stacks
from jaxina.watchdog.state import State
from jaxina.watchdog.watch import Watchdog

_log = logging.getLogger("jaxina")
_LIBRARIES = tuple(f"{Path(module).resolve().parent}/" for module in (jax.__file__, __file__))

progress = Progress()
_tokens = Tokens(progress)
_watchdog: Watchdog | None = None
_late_after = math.inf


def asks() -> bool:
    """Whether this process reports collectives that are late."""
    return _late_after < math.inf


def start(configuration: Configuration, topology: JaxTopology, incarnation: int) -> None:
    """Starts the watchdog of a job of several processes.

    Args:
      configuration: this process's settings.
      topology: this process's number, and how many there are.
      incarnation: how often `jaxina.init` has succeeded in this process.
    """
    global _watchdog, _late_after
    progress.forget()
    if topology.processes == 1:
        return
    _late_after = configuration.late_after_s
    _watchdog = Watchdog(
        joining.jax_store(),
        f"jaxina/{incarnation}/watchdog",
        topology.process,
        topology.processes,
        late_after=_late_after,
        timeout=max(configuration.timeout, _late_after),
        state=functools.partial(_state, topology),
        ended=joining.ended_processes,
        tell=_tell,
    )


def stop() -> None:
    """Stops the watchdog, if one runs."""
    global _watchdog, _late_after
    if _watchdog is not None:
        _watchdog.stop()
    _watchdog, _late_after = None, math.inf


def longest_wait() -> float:
    """For how many seconds this process's oldest collective has been under way; 0 if there is none."""
    waiting = [waiting[2] for *_, waiting in _native.under_way() if waiting is not None]
    return max([*waiting, *(wait.seconds for wait in progress.waits())], default=0.0)


def forget_in_child() -> None:
    """Forgets the parent's watchdog, after a fork."""
    global progress, _tokens, _watchdog, _late_after
    progress = Progress()
    _tokens = Tokens(progress)
    _watchdog, _late_after = None, math.inf


def following(processes: list[int], what: str) -> Callable[[Any], Any]:
    """Makes a function that wraps JAX's call of a program, so that each run is noted.

    Args:
      processes: the processes of the program.
      what: what the program is, in words.
    """
    from jaxina._jax_compat.run import Followed

    return lambda call: Followed(
        call,
        lambda: progress.begin(processes, what),
        lambda number: progress.end(number),
        lambda number, wait: _tokens.end_after(number, wait),
    )


def _state(topology: JaxTopology, with_stacks: bool) -> State:
    entered, waits = engine_progress(_native.under_way(), topology.owners, _report.described)
    return State(
        topology.process,
        str(this_place()),
        {**entered, **progress.entered()},
        (*waits, *progress.waits()),
        progress.compiles_for(),
        stacks(_LIBRARIES) if with_stacks else (),
    )


def _tell(message: str) -> None:
    _log.error("%s", message)
    joining.tell_coordinator(message)
