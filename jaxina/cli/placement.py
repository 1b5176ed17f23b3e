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

    def switch_host(self, rack: int | None = None) -> str:
        """The address of a rack's switch, or of the only one, or of the core's."""
        if self.testbed is None:
            return "127.0.0.1"
        return self.testbed.switch_host if rack is None else self.testbed.rack_switch_host(rack)

    @property
    def racks(self) -> int:
        """In how many racks the hosts are."""
        return self.testbed.size.racks if self.testbed else 1

    @property
    def first_host(self) -> str:
        """The address of worker 0."""
        return self.testbed.worker_host(0) if self.testbed else "127.0.0.1"

    def on_switch(self, command: list[str], rack: int | None = None) -> list[str]:
        """Makes a command that runs `command` where that switch is."""
        if self.testbed is None:
            return command
        name = self.testbed.switch_namespace if rack is None else self.testbed.rack_switch_namespace(rack)
        return [*self.testbed.inside(name), *command]

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

    def check(self, workers: int, racks: int, aggregator: str) -> None:
        """Checks that a testbed has room for the workers in these racks, and that the aggregator uses its network.

        Raises:
          InvalidArgumentError: it does not.
        """
        if self.testbed is None:
            return
        room = self.testbed.size.workers
        if workers > room:
            raise InvalidArgumentError(
                f"the testbed has room for {room} workers, not for {workers}: make a larger one with "
                f"`jaxina testbed down` and `jaxina testbed up -n {workers}`"
            )
        if self.racks > 1 and (workers != room or racks not in (1, self.racks)):
            raise InvalidArgumentError(f"the testbed has {room} workers in {self.racks} racks: start as many")
        if aggregator == "embedded":
            raise InvalidArgumentError(
                "the embedded aggregator does not use a testbed's network: add --aggregator udp, or direct"
            )


current: contextvars.ContextVar[Placement] = contextvars.ContextVar("placement", default=Placement())
