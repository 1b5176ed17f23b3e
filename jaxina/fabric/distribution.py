"""How a model goes from the server to the workers that asked for it (section 10.3)."""

from __future__ import annotations

from collections.abc import Sequence

from jaxina.errors import InvalidArgumentError
from jaxina.fabric.aggregation import aggregate
from jaxina.fabric.calendar import Calendar, Reservation
from jaxina.fabric.network import Network, Path
from jaxina.fabric.updates import Update


class _Backwards:
    """A network in which everything flows the other way."""

    def __init__(self, network: Network) -> None:
        self._network = network

    @property
    def rates(self) -> list[int]:
        return self._network.rates

    def path(self, source: str, destination: str) -> Path:
        return tuple(reversed(self._network.path(destination, source)))


def distribute(
    network: Network,
    calendar: Calendar,
    server: str,
    workers: Sequence[str],
    distributors: Sequence[str],
    size: int,
    now: int,
) -> dict[str, Reservation]:
    """Plans how each worker gets the model: Algorithm 3, backwards. Reserves what it plans.

    The groups are those of the same workers' sums on their way to the server, with all links turned round. The last
    group's distributor gets the model first. The workers that a sum would have left directly get it directly, last.

    Args:
      network: gives the paths.
      calendar: what is free. The transfers are reserved in it.
      server: the host that has the model.
      workers: those that want it, no host twice.
      distributors: hosts that may pass it on.
      size: bytes of the model. Positive.
      now: nanoseconds.

    Returns:
      Each worker's transfer, and those of the distributors that are no workers.

    Raises:
      InvalidArgumentError: a worker can never be reached, or is named twice.
    """
    if len(set(workers)) < len(workers):
        raise InvalidArgumentError(f"a worker asks twice for the same model: {', '.join(sorted(workers))}")
    for worker in workers:
        if calendar.end(network.path(server, worker), size, now) is None:
            raise InvalidArgumentError(f"worker {worker} cannot get the model: a link of its path has no rate")
    wanted = [Update(i, worker, size, 0) for i, worker in enumerate(workers)]
    groups, _ = aggregate(_Backwards(network), calendar, server, wanted, distributors, now)
    given: dict[str, Reservation] = {}
    for group in reversed(groups):
        source, start = server, now
        if group.aggregator is not None:
            source = group.aggregator
            start = _give(given, network, calendar, server, source, size, now).end
        for update in reversed(group.updates):
            _give(given, network, calendar, source, update.worker, size, start)
    return given


def _give(
    given: dict[str, Reservation],
    network: Network,
    calendar: Calendar,
    source: str,
    destination: str,
    size: int,
    start: int,
) -> Reservation:
    """Sends the model to a host that has not got it yet."""
    if destination not in given:
        reservation = calendar.reserve(network.path(source, destination), size, start)
        if reservation is None:
            raise InvalidArgumentError(f"{destination} cannot get the model from {source}: a link has no rate")
        given[destination] = reservation
    return given[destination]
