"""Transfers that share links fairly, in virtual time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import simpy

_DONE = 1e-3  # bytes: what rounding may leave of a transfer


@dataclasses.dataclass(eq=False)
class _Flow:
    path: tuple[int, ...]
    left: float
    done: simpy.Event
    rate: float = 0.0


class FluidNetwork:
    """Links with rates, and transfers with max-min fair shares of them, as long-lived TCP connections would have.

    Args:
      env: the clock, in seconds.
      rates: each link's rate, in bytes per second.
    """

    def __init__(self, env: simpy.Environment, rates: Sequence[float]) -> None:
        self._env = env
        self.rates = [float(r) for r in rates]
        self._flows: list[_Flow] = []
        self._since = 0.0
        self._timer = 0
        self.carried = [0.0] * len(rates)  # bytes on each link so far

    def send(self, path: Sequence[int], size: float) -> simpy.Event:
        """Starts a transfer. The event happens when its last byte has arrived: at once if the path is empty."""
        done = self._env.event()
        if not path or size <= 0:
            done.succeed()
            return done
        self._advance()
        self._flows.append(_Flow(tuple(path), float(size), done))
        self._share()
        return done

    def set_rate(self, link: int, rate: float) -> None:
        """Changes a link's rate now."""
        self._advance()
        self.rates[link] = float(rate)
        self._share()

    def _advance(self) -> None:
        """Moves all transfers on to the present."""
        elapsed, self._since = self._env.now - self._since, self._env.now
        if elapsed <= 0:
            return
        for flow in self._flows:
            flow.left -= flow.rate * elapsed
            for link in flow.path:
                self.carried[link] += flow.rate * elapsed

    def _share(self) -> None:
        """Ends what has arrived, and gives the others their shares by progressive filling."""
        for flow in [f for f in self._flows if f.left <= _DONE]:
            self._flows.remove(flow)
            flow.done.succeed()
        left = dict(enumerate(self.rates))
        waiting = list(self._flows)
        while waiting:
            users: dict[int, int] = {}
            for flow in waiting:
                for link in flow.path:
                    users[link] = users.get(link, 0) + 1
            narrowest = min(users, key=lambda link: left[link] / users[link])
            share = left[narrowest] / users[narrowest]
            for flow in [f for f in waiting if narrowest in f.path]:
                flow.rate = share
                waiting.remove(flow)
                for link in flow.path:
                    left[link] = max(0.0, left[link] - share)
        self._timer += 1
        wait = min((f.left / f.rate for f in self._flows if f.rate > 0), default=math.inf)
        if wait < math.inf:
            self._env.process(self._wake(self._timer, wait))

    def _wake(self, timer: int, wait: float):
        yield self._env.timeout(wait)
        if timer == self._timer:
            self._advance()
            self._share()
