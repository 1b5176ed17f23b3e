"""The network that the scheduler plans on: links with rates, and the path between two hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from jaxina.errors import InvalidArgumentError

Path = tuple[int, ...]
"""The links of a transfer, by number."""


class Network(Protocol):
    """Links, and a fixed path for each pair of hosts."""

    @property
    def rates(self) -> list[int]:
        """Each link's rate at first, in bytes per second. A calendar has what it is now."""
        ...

    def path(self, source: str, destination: str) -> Path:
        """The links from one host to another. Empty within a host.

        Raises:
          InvalidArgumentError: the network has no such host.
        """
        ...


class Nic(NamedTuple):
    """What a host can send and receive, in bytes per second."""

    out: int
    into: int


class Star:
    """Hosts around a core that is never congested: only their own links limit them. The paper's network.

    Args:
      hosts: each host's rates.

    Raises:
      InvalidArgumentError: a rate is negative.
    """

    def __init__(self, hosts: Mapping[str, Nic]) -> None:
        for name, nic in hosts.items():
            if min(nic) < 0:
                raise InvalidArgumentError(f"host {name}: a rate of {min(nic)} bytes per second is negative")
        self._numbers = {name: i for i, name in enumerate(hosts)}
        self._rates = [rate for nic in hosts.values() for rate in nic]

    @property
    def hosts(self) -> list[str]:
        """The hosts' names, in the order in which they were given."""
        return list(self._numbers)

    @property
    def rates(self) -> list[int]:
        """Each link's rate at first, in bytes per second: out and into of the first host, then of the second, and so
        on. A calendar has what it is now."""
        return list(self._rates)

    def outgoing(self, host: str) -> int:
        """The number of the link on which the host sends."""
        return 2 * self._number(host)

    def incoming(self, host: str) -> int:
        """The number of the link on which the host receives."""
        return 2 * self._number(host) + 1

    def path(self, source: str, destination: str) -> Path:
        """The sender's and the receiver's link. Empty within a host."""
        if source == destination:
            self._number(source)
            return ()
        return self.outgoing(source), self.incoming(destination)

    def _number(self, host: str) -> int:
        try:
            return self._numbers[host]
        except KeyError:
            raise InvalidArgumentError(f"the network has no host {host!r}: it has {', '.join(self._numbers)}") from None
