"""What a switch does for a job that it did not make: it combines updates, is one of its servers, or sums a rack.

The messages come from whoever reaches the switch. So `read` checks them before anything else sees them.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from jaxina._native import MAX_GROUPS
from jaxina.control import control_pb2 as pb
from jaxina.control.data_address import Addresses, check_address
from jaxina.control.data_plane import QueuePairs
from jaxina.errors import InvalidArgumentError

_MOST_ADDRESSES = 4096  # of servers or switches in one request


@dataclasses.dataclass(frozen=True)
class Child:
    """A sender below a switch.

    Attributes:
      workers: the workers whose updates it sends.
      group: the number of their group, if the sender is a switch that combines them. None: it is the worker itself.
    """

    workers: tuple[int, ...]
    group: int | None = None


@dataclasses.dataclass(frozen=True)
class Combine:
    """A switch combines a job's updates on their way.

    Attributes:
      group: the number of the group of all workers below it.
      children: who sends to it.
      upstream: hosts and UDP ports of the servers, or of the switch above. Slot i goes to
        ``upstream[i % len(upstream)]``.
      ways: slots whose numbers are equal modulo this come from one address of each child. A worker has one address, a
        switch below may have several.
    """

    group: int
    children: tuple[Child, ...]
    upstream: tuple[tuple[str, int], ...]
    ways: int = 1

    @property
    def contacts(self) -> int:
        """How many addresses of children there may be."""
        return len(self.children) * self.ways

    def write(self, request: pb.AssistRequest) -> None:
        """Makes it the request's role."""
        request.combine.group, request.combine.ways = self.group, self.ways
        request.combine.children.extend(pb.Child(workers=one.workers, group=one.group) for one in self.children)
        request.combine.upstream.extend(_messages(self.upstream))

    @staticmethod
    def read(message: pb.Combine, workers: int) -> Combine:
        """Reads what `write` wrote, for a job with so many workers.

        Raises:
          InvalidArgumentError: no switch can do that.
        """
        _check_group(message.group)
        children = tuple(_child(one, workers) for one in message.children)
        if not children:
            raise InvalidArgumentError("a switch combines the updates of at least one child")
        below = [worker for child in children for worker in child.workers]
        if worker := _twice(below):
            raise InvalidArgumentError(f"worker {worker[0]} is below two children of the switch")
        if group := _twice([message.group, *(child.group for child in children if child.group is not None)]):
            raise InvalidArgumentError(f"group {group[0]} of the job is there twice")
        upstream = _checked_addresses(message.upstream, "a server or switch above")
        if not upstream:
            raise InvalidArgumentError("a switch combines updates on their way to servers, but none are named")
        if not 0 < message.ways <= _MOST_ADDRESSES:
            raise InvalidArgumentError(f"there are 1 to {_MOST_ADDRESSES} ways to a switch, not {message.ways}")
        return Combine(message.group, children, tuple(upstream), message.ways)

    def described(self, workers: int) -> str:
        """Says what the switch does for a job with so many workers."""
        below = sum(len(child.workers) for child in self.children)
        in_racks = any(child.group is not None for child in self.children)
        return f"combines {below} of {workers} workers" + (f" in {len(self.children)} racks" if in_racks else "")


@dataclasses.dataclass(frozen=True)
class Serve:
    """A switch sums a part of a job's slots.

    Attributes:
      index: the number of the part, from 0.
      of: how many servers the job has.
      groups: the workers of each group whose updates may come as one sum, by the group's number.
      switches: hosts and UDP ports from which such sums come; those of slot i from ``switches[i % len(switches)]``.
    """

    index: int
    of: int
    groups: tuple[tuple[int, ...], ...]
    switches: tuple[tuple[str, int], ...]

    def write(self, request: pb.AssistRequest) -> None:
        """Makes it the request's role."""
        request.serve.index, request.serve.of = self.index, self.of
        request.serve.groups.extend(pb.Group(workers=group) for group in self.groups)
        request.serve.switches.extend(_messages(self.switches))

    @staticmethod
    def read(message: pb.Serve, workers: int) -> Serve:
        """Reads what `write` wrote, for a job with so many workers.

        Raises:
          InvalidArgumentError: no switch can do that.
        """
        if len(message.groups) > MAX_GROUPS:
            raise InvalidArgumentError(f"a job has at most {MAX_GROUPS} groups, not {len(message.groups)}")
        groups = tuple(_checked_workers(one.workers, workers) for one in message.groups)
        switches = _checked_addresses(message.switches, "a switch on the way")
        return Serve(message.index, message.of, groups, tuple(switches))

    def contacts(self, workers: int) -> int:
        """How many addresses of workers there may be, for a job with so many."""
        return workers * max(1, len(self.switches))

    def described(self) -> str:
        """Says what the switch does."""
        return f"server {self.index} of {self.of}"


@dataclasses.dataclass(frozen=True)
class RackOfRing:
    """A switch sums what the workers of its rack write to each other in a ring, below another switch.

    Attributes:
      ends: all workers' queue pairs, in their order, with one MTU.
      racks: each worker's rack.
      own: the rack whose switch this is.
    """

    ends: tuple[QueuePairs, ...]
    racks: tuple[int, ...]
    own: int

    def write(self, request: pb.AssistRequest) -> None:
        """Makes it the request's role."""
        request.rack.own = self.own
        request.rack.racks.extend(self.racks)
        request.rack.ends.extend(pb.QueuePairs(**dataclasses.asdict(end)) for end in self.ends)

    @staticmethod
    def read(message: pb.RackOfRing, workers: int) -> RackOfRing:
        """Reads what `write` wrote, for a job with so many workers.

        Raises:
          InvalidArgumentError: no switch can do that.
        """
        if len(message.ends) != workers or len(message.racks) != workers:
            raise InvalidArgumentError(f"a ring of {workers} workers has as many ends, each in one rack")
        ends = tuple(map(QueuePairs.told, message.ends))
        for end in ends:
            end.check_in_ring()
        if len({end.mtu for end in ends}) > 1:
            raise InvalidArgumentError("the workers of a ring have one MTU")
        if message.own not in message.racks:
            raise InvalidArgumentError(f"no worker of the ring is in rack {message.own}")
        return RackOfRing(ends, tuple(message.racks), message.own)

    def described(self) -> str:
        """Says what the switch does."""
        return f"sums {self.racks.count(self.own)} of {len(self.racks)} workers in a ring"


def _messages(addresses: Iterable[tuple[str, int]]) -> list[pb.DataAddress]:
    return [pb.DataAddress(host=host, port=port) for host, port in addresses]


def _check_group(number: int) -> None:
    if number >= MAX_GROUPS:
        raise InvalidArgumentError(f"the groups of a job have the numbers 0 to {MAX_GROUPS - 1}, not {number}")


def _child(message: pb.Child, workers: int) -> Child:
    child = Child(_checked_workers(message.workers, workers), message.group if message.HasField("group") else None)
    if child.group is not None:
        _check_group(child.group)
    elif len(child.workers) > 1:
        raise InvalidArgumentError(f"a child with {len(child.workers)} workers needs the number of their group")
    return child


def _twice(numbers: Sequence[int]) -> list[int]:
    """The numbers that are there more than once."""
    return [number for number, times in collections.Counter(numbers).items() if times > 1]


def _checked_workers(given: Sequence[int], workers: int) -> tuple[int, ...]:
    """The workers of a child or of a group."""
    if not given or _twice(given):
        raise InvalidArgumentError("a child and a group of a job have at least one worker, and none twice")
    if max(given) >= workers:
        raise InvalidArgumentError(f"worker {max(given)} is not below {workers}: a job's workers count from 0")
    return tuple(given)


def _checked_addresses(given: Any, whose: str) -> Addresses:
    if len(given) > _MOST_ADDRESSES:
        raise InvalidArgumentError(f"a job has at most {_MOST_ADDRESSES} servers or switches, not {len(given)}")
    for one in given:
        check_address(one.host, one.port, whose)
    return [(one.host, one.port) for one in given]
