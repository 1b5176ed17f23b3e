"""What a job's links have, as a monitor tells."""

from __future__ import annotations

from jaxina.errors import InvalidArgumentError
from jaxina.fabric.network import Nic, Star
from jaxina.fabric.scheduler import Scheduler
from jaxina.fabric.service.hosts import Hosts
from jaxina.fabric.service.settings import JobSettings


class Links:
    """The links of all places of a job. Nothing is planned over those of a place where nobody is.

    Args:
      settings: has the places, and the rate that each link has at first.
      hosts: who is there.

    Attributes:
      star: the network.
    """

    def __init__(self, settings: JobSettings, hosts: Hosts) -> None:
        self.star = Star({name: Nic(settings.rate, settings.rate) for name in settings.hosts})
        self._hosts = hosts
        self._rates = self.star.rates
        self._scheduler: Scheduler | None = None

    def begin(self, scheduler: Scheduler) -> None:
        """Tells a scheduler all rates, and from now on each change."""
        self._scheduler = scheduler
        for name in self.star.hosts:
            self.look(name)

    def set_rates(self, name: str, out: int, into: int) -> None:
        """A monitor says what a host's links have, in bytes per second.

        Raises:
          InvalidArgumentError: there is no such host, or a rate is negative.
        """
        if min(out, into) < 0:
            raise InvalidArgumentError(f"a rate of {min(out, into)} bytes per second is negative")
        self._rates[self.star.outgoing(name)], self._rates[self.star.incoming(name)] = out, into
        self.look(name)

    def rates(self, name: str) -> tuple[int, int]:
        """What a host's links have, out and in, in bytes per second."""
        return self._rates[self.star.outgoing(name)], self._rates[self.star.incoming(name)]

    def look(self, name: str) -> None:
        """Somebody has come to a place, or is gone."""
        if self._scheduler is None:
            return
        there = self._hosts.find(name) is not None
        for link in (self.star.outgoing(name), self.star.incoming(name)):
            self._scheduler.set_rate(link, self._rates[link] if there else 0)
