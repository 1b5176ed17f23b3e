"""Who sums a job, the threads of a switch or servers in the workers' own processes, and who combines on the way."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jaxina.control.data_address import check_address


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
        check_address(self.host, self.port, "a worker's server")


@dataclasses.dataclass(frozen=True)
class Switch:
    """A switch, as a process has found it. It is the same one if its data ports are.

    Attributes:
      control: its control address, HOST:PORT, as the process names it.
      host: the numeric address at which it takes packets.
      ports: its UDP ports, one for each thread.
      upstream: the control address of the switch that it is below; empty if there is none.
    """

    control: str = dataclasses.field(compare=False)
    host: str
    ports: tuple[int, ...]
    upstream: str = dataclasses.field(compare=False)


@dataclasses.dataclass(frozen=True)
class Servers:
    """Where a job's passes are summed.

    Attributes:
      addresses: hosts and UDP ports. Slot i of the job belongs to ``addresses[i % len(addresses)]``.
      first_window: how many passes a worker has in flight at first; 0: not known.
      at_workers: whether ``addresses[i]`` is the server in worker i's process.
      switches: hosts and UDP ports of the switches on the way that may combine updates. Slot i goes through
        ``switches[i % len(switches)]``. Empty: there are none.
      workers_per_link: how many senders' packets share a link to a server, or to a switch on the way.
      own_host: in a ring, the numeric address at which the other workers reach this process.
      key: the key of the job's packets; empty if they are in the clear.
    """

    addresses: Sequence[tuple[str, int]] = ()
    first_window: int = 0
    at_workers: bool = False
    switches: Sequence[tuple[str, int]] = ()
    workers_per_link: int = 1
    own_host: str = ""
    key: bytes = dataclasses.field(default=b"", repr=False)
