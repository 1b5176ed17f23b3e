"""Who sums a job: the threads of a switch, or servers in the workers' own processes."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Sequence

from jaxina.errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True)
class WorkerServer:
    """The server in a worker's process, as the worker announces it when it joins.

    Attributes:
      host: the numeric address at which the other workers reach it.
      port: its UDP port.
      room: for how many passes of each worker its socket buffer has room; 0: not known.
    """

    host: str
    port: int
    room: int

    def check(self) -> None:
        """Checks that packets can be sent there.

        Raises:
          InvalidArgumentError: they cannot.
        """
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            raise InvalidArgumentError(
                f"a worker's server is at {self.host[:64]!r}, which is not a numeric address"
            ) from None
        if address.is_multicast or address.is_unspecified or not 0 < self.port < 65536:
            raise InvalidArgumentError(f"a worker's server cannot be at {self.host}, port {self.port}")


@dataclasses.dataclass(frozen=True)
class Servers:
    """Where a job's passes are summed.

    Attributes:
      addresses: hosts and UDP ports. Slot i of the job belongs to ``addresses[i % len(addresses)]``.
      first_window: how many passes a worker has in flight at first; 0: not known.
      at_workers: whether ``addresses[i]`` is the server in worker i's process.
      switches: hosts and UDP ports of the switches on the way that may combine updates. Slot i goes through
        ``switches[i % len(switches)]``. Empty: there are none.
      workers_per_link: how many workers' packets share a link to a server, or to a switch on the way.
    """

    addresses: Sequence[tuple[str, int]] = ()
    first_window: int = 0
    at_workers: bool = False
    switches: Sequence[tuple[str, int]] = ()
    workers_per_link: int = 1
