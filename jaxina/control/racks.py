"""Which switch combines what of a job: each worker names the switches of its own rack.

A worker names k switches. Slot i goes by path i mod k, through the switch that the worker names for that path. Where
all workers name one switch for a path, it combines all of them, and sends to the servers. Where they name several, each
combines the workers of its rack, and sends to its upstream, the core switch. That one combines the racks.

Nothing here waits or calls: what the switches say of themselves comes in, and a plan comes out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from jaxina._native import MAX_GROUPS
from jaxina.control.data_address import Addresses
from jaxina.control.roles import Child, Combine
from jaxina.control.servers import Switch
from jaxina.control.wording import listed
from jaxina.errors import InvalidArgumentError

Named = Sequence[Sequence[Switch]]  # per worker: the switches that it names, by path

_MOST_LISTED = 8  # switches in a message


@dataclasses.dataclass(frozen=True)
class Layout:
    """What all workers of a job must know of its switches.

    Attributes:
      ways: the different lists of hosts and UDP ports. A worker's slot i goes through number i mod the length of its
        list. Without switches, they are empty.
      way_of: per worker the index of its list in `ways`.
      groups: the workers of each group whose updates may come as one sum, by the group's number.
      tops: hosts and UDP ports from which the servers get such sums: those of slot i from number i mod the length.
      senders_per_link: how many senders share the link of a switch, if it has one; 1 without switches.
    """

    ways: list[Addresses]
    way_of: list[int]
    groups: list[list[int]]
    tops: Addresses
    senders_per_link: int

    def way(self, worker: int) -> Addresses:
        """The list of a worker."""
        return self.ways[self.way_of[worker]]

    @staticmethod
    def restored(data: dict[str, Any]) -> Layout:
        """Restores a layout whose fields have been JSON."""
        ways = [restored_addresses(way) for way in data["ways"]]
        return Layout(**{**data, "ways": ways, "tops": restored_addresses(data["tops"])})


def restored_addresses(pairs: Sequence[Sequence[Any]]) -> Addresses:
    """Restores addresses that have been JSON."""
    return [(str(host), int(port)) for host, port in pairs]


def in_turn(switches: Sequence[Switch], turns: int) -> Addresses:
    """The addresses of several switches by thread, and by switch for each thread, with so many turns of the threads."""
    return [(one.host, one.ports[turn % len(one.ports)]) for turn in range(turns) for one in switches]


def most_threads(switches: Sequence[Switch]) -> int:
    """The number of threads of the switch that has the most; 0 without switches."""
    return max((len(one.ports) for one in switches), default=0)


def one_view(named: Named) -> Named:
    """Takes a switch that several workers name alike for one, as the first of them has found it."""
    known: dict[str, Switch] = {}
    return [[known.setdefault(one.control, one) for one in switches] for switches in named]


def cores(named: Named) -> list[str | None]:
    """The control address of each path's core switch; None if one switch combines all workers.

    Raises:
      InvalidArgumentError: the switches of a path have different upstreams, or one has none.
    """
    return [_core(path, _racks(named, path)) for path in range(len(named[0]))]


def plan(named: Named, found: Mapping[str, Switch]) -> tuple[Layout, dict[str, Combine]]:
    """Plans which switch combines what.

    Args:
      named: the switches that each worker names, equally many.
      found: the core switches, by control address.

    Returns:
      What all workers must know, and what each switch combines, by control address. A role without an upstream sends to
      the servers.

    Raises:
      InvalidArgumentError: as `cores`; or a switch would have two roles; or there are too many racks.
    """
    core_of_path = [None if control is None else found[control] for control in cores(named)]
    everybody = range(len(named))
    paths = len(core_of_path)
    # All workers of a rack must send a slot to the same thread. So all lists of addresses have the same length, also
    # where a worker's other paths lead through other switches.
    turns = most_threads([*(one for switches in named for one in switches), *filter(None, core_of_path)])
    groups: dict[tuple[int, ...], int] = {}
    roles: dict[Switch, Combine] = {}
    tops: list[Switch] = []

    def combine(
        switch: Switch,
        workers: Sequence[int],
        children: Sequence[Child],
        upstream: Sequence[tuple[str, int]] = (),
        ways: int = 1,
    ) -> int:
        """Gives a switch its role. Returns the number of its group."""
        number = groups.setdefault(tuple(workers), len(groups))
        role = Combine(number, tuple(children), tuple(upstream), ways)
        if (before := roles.setdefault(switch, role)) != role:
            raise _two_roles(switch, before, role)
        return number

    for path, core in enumerate(core_of_path):
        racks = _racks(named, path)
        children = [Child((worker,)) for worker in everybody]
        if core is not None:
            upstream = in_turn([core] * paths, turns)
            numbers = [combine(one, rack, [Child((w,)) for w in rack], upstream) for one, rack in racks.items()]
            # A rack with one worker is that worker: its switch passes on what the worker sends.
            children = [
                Child(tuple(rack), number if len(rack) > 1 else None)
                for rack, number in zip(racks.values(), numbers, strict=True)
            ]
        tops.append(core or next(iter(racks)))
        combine(tops[-1], everybody, children, ways=1 if core is None else paths * turns)
    if len(groups) > MAX_GROUPS:
        raise InvalidArgumentError(
            f"the switches that the workers name make {len(groups)} groups of workers, but a job has at most "
            f"{MAX_GROUPS}: name fewer switches"
        )
    ways: dict[tuple[Switch, ...], int] = {}
    way_of = [ways.setdefault(tuple(switches), len(ways)) for switches in named]
    senders = max((len(role.children) for role in roles.values()), default=1)
    layout = Layout(
        ways=[in_turn(way, turns) for way in ways],
        way_of=way_of,
        groups=[list(group) for group in groups],
        tops=in_turn(tops, turns),
        senders_per_link=-(-senders // max(paths, 1)),
    )
    return layout, {switch.control: role for switch, role in roles.items()}


def _racks(named: Named, path: int) -> dict[Switch, list[int]]:
    """The workers that name each switch for a path."""
    racks: dict[Switch, list[int]] = {}
    for worker, switches in enumerate(named):
        racks.setdefault(switches[path], []).append(worker)
    return racks


def _core(path: int, racks: Mapping[Switch, Sequence[int]]) -> str | None:
    if len(racks) == 1:
        return None
    upstreams = {switch.upstream for switch in racks}
    if len(upstreams) == 1 and "" not in upstreams:
        return upstreams.pop()
    texts = [
        f"{switch.control} (of worker {listed(workers)}) has {switch.upstream or 'none'}"
        for switch, workers in racks.items()
    ]
    more = f"; and {len(texts) - _MOST_LISTED} more" if len(texts) > _MOST_LISTED else ""
    raise InvalidArgumentError(
        f"the workers name {len(racks)} switches as number {path + 1} of JAXINA_SWITCH. Switches of several racks need "
        f"the same upstream, but {'; '.join(texts[:_MOST_LISTED])}{more}. Start each by `jaxina switch --upstream "
        "HOST:PORT` with the core switch's address, or name the same switch at all workers"
    )


def _two_roles(switch: Switch, one: Combine, other: Combine) -> InvalidArgumentError:
    def below(role: Combine) -> str:
        return listed(sorted(worker for child in role.children for worker in child.workers))

    return InvalidArgumentError(
        f"the switch at {switch.control} would have two parts in one job: for worker {below(one)}, and for worker "
        f"{below(other)}. Name a switch at the same place of JAXINA_SWITCH at all workers of its rack, and do not name "
        "the core switch"
    )
