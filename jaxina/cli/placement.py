"""Where the processes of a run are: on this host's loopback network, or in the namespaces of a testbed."""

from __future__ import annotations

import contextvars
import dataclasses
from collections.abc import Callable
from typing import TypeVar

from jaxina.errors import InvalidArgumentError
from jaxina.testbed import Testbed

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Placement:
    """A placement: loopback, or the testbed if one is given."""

    testbed: Testbed | None = None

    @property
    def switch_host(self) -> str:
        """The address of the switch."""
        return self.testbed.switch_host if self.testbed else "127.0.0.1"

    @property
    def first_host(self) -> str:
        """The address of worker 0."""
        return self.testbed.worker_host(0) if self.testbed else "127.0.0.1"

    def on_switch(self, command: list[str]) -> list[str]:
        """Makes a command that runs `command` where the switch is."""
        if self.testbed is None:
            return command
        return [*self.testbed.inside(self.testbed.switch_namespace), *command]

    def on_worker(self, rank: int, command: list[str]) -> list[str]:
        """Makes a command that runs `command` where the worker is."""
        if self.testbed is None:
            return command
        return [*self.testbed.inside(self.testbed.worker_namespace(rank)), *command]

    def at_first_worker(self, make: Callable[[], T]) -> T:
        """Calls `make` where worker 0 is, and returns the result, such as a socket, which then belongs there."""
        return make() if self.testbed is None else self.testbed.within(self.testbed.worker_namespace(0), make)

    def enter_first_worker(self) -> None:
        """Moves this process to where worker 0 is."""
        if self.testbed is not None:
            self.testbed.enter(self.testbed.worker_namespace(0))

    def check(self, workers: int, aggregator: str) -> None:
        """Checks that a testbed has room for the workers, and that the aggregator uses its network.

        Raises:
          InvalidArgumentError: it does not.
        """
        if self.testbed is None:
            return
        if workers > self.testbed.workers:
            raise InvalidArgumentError(
                f"the testbed has room for {self.testbed.workers} workers, not for {workers}: make a larger one with "
                f"`jaxina testbed down` and `jaxina testbed up -n {workers}`"
            )
        if aggregator == "embedded":
            raise InvalidArgumentError(
                "the embedded aggregator does not use a testbed's network: add --aggregator udp, or direct"
            )


current: contextvars.ContextVar[Placement] = contextvars.ContextVar("placement", default=Placement())
