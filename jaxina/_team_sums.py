"""Sums over an elastic team, in a step of `jaxina.elastic.steps`. Who the members are is known only when they run.

The sums are custom calls like those of psums (`jaxina._lowering`), but name no devices. When one runs, the native code
looks who the members are in the attempt at a step that this process is at (xla_ffi/team.h). It adds the attempt's
number to what the aggregator compares. So sums of different attempts are never added together.

JAX runs programs asynchronously. A run that belongs to one attempt must not reach its sums in the next one, so all runs
are followed to their end before an attempt ends, also those whose results nobody uses.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxina import _native, _tracing_settings
from jaxina._jax_compat import lowering as compat
from jaxina.errors import InvalidArgumentError, NotInitializedError

TARGET = "jaxina_team_all_reduce"


class Runs:
    """The runs of programs with such sums that this process has begun in its present attempt."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_open = False
        self._waits: list[Callable[[], Any]] = []
        self._failed: list[BaseException] = []

    @contextlib.contextmanager
    def attempt(self, group: Sequence[int], member: int, number: int) -> Iterator[None]:
        """Encloses an attempt at a step. All its runs have ended when the context has.

        Args:
          group: the numbers of the members that sum.
          member: this process's.
          number: of the attempt, below 2^64; different for each.

        Raises:
          Exception: a run has failed, though the block did not.
        """
        with self._lock:
            self._is_open, self._waits, self._failed = True, [], []
        _native.set_team(list(group), member, number)
        try:
            yield
        except BaseException:
            # The sums that are still under way may wait for others in vain.
            _native.abort([], "SHUT_DOWN", "this member's step has failed")
            raise
        finally:
            with self._lock:
                self._is_open = False
            for wait in self._waits:
                try:
                    wait()
                except Exception as error:
                    self._failed.append(error)
            self._waits = []
            _native.set_team([])
        if self._failed:
            raise self._failed[0]

    def begin(self) -> int:
        """Checks that a run may begin. Returns its number, which is not needed here.

        Raises:
          NotInitializedError: no attempt is under way.
        """
        with self._lock:
            if not self._is_open:
                raise NotInitializedError(
                    "a program with a sum over the team ran outside of a step: call it only in the function that is "
                    "given to jaxina.elastic.steps"
                )
        return 0

    def end(self, _: int) -> None:
        """Notes that a run has failed at once. It is called while that exception is handled."""
        error = sys.exception()
        assert error is not None
        with self._lock:
            self._failed.append(error)

    def end_after(self, _: int, wait: Callable[[], Any]) -> None:
        """Notes a run that has begun. `wait` waits for its end."""
        with self._lock:
            self._waits.append(wait)


runs = Runs()


def following(call: Any) -> Any:
    """Wraps JAX's call of a program with sums over the team, so that each run is followed."""
    from jaxina._jax_compat.run import Followed

    return Followed(call, runs.begin, runs.end, runs.end_after)


def lowered(ctx: Any, operand: Any) -> list[Any]:
    """Lowers one sum."""
    devices = compat.device_ids()
    if devices is None or len(devices) != 1:
        raise InvalidArgumentError(
            "jaxina.elastic.all_reduce sums over processes, so its program must be for one device of each, not for "
            f"{'an abstract mesh' if devices is None else f'{len(devices)} devices'}"
        )
    precision = np.array(_tracing_settings.precision.value.numbers, np.int64)
    return compat.as_result(ctx, compat.ordered_custom_call(ctx, TARGET, operand, {"precision": precision}))
