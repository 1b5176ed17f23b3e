"""Enters the copies that the traffic manager makes: of results for a job's workers, and of broadcasts for all ports.

These are fixed tables of the chip.
"""

from __future__ import annotations

from typing import Protocol

from jaxina.controller.chip import Chip
from jaxina.controller.journal import OF_GROUP, Journal, Writing
from jaxina.controller.pool import Station
from jaxina.controller.tables import Entry, Tables, Value

FLOOD = 256  # the group after the jobs' groups
_FLOOD_NODES = 1 << 13  # the node after the jobs' nodes, whose numbers are rids


class Receivers(Writing, Protocol):
    """A job, of whose results each member gets a copy: a worker, or a switch below."""

    @property
    def group(self) -> int: ...

    @property
    def members(self) -> int: ...

    @property
    def stations(self) -> dict[int, Station]: ...

    def rid(self, member: int) -> int: ...


class Multicast:
    def __init__(self, tables: Tables, journal: Journal):
        self._tables = tables
        self._journal = journal

    def fill(self, chip: Chip) -> None:
        """Enters the group of broadcasts, and what keeps a frame from going back: which port has which exclusion id."""
        ports = chip.attached
        self._tables.insert([_node(_FLOOD_NODES + port, 0, port) for port in ports])
        self._tables.insert([_group(FLOOD, [_FLOOD_NODES + port for port in ports])])
        self._tables.modify(
            [
                Entry("$pre.prune", {"$MULTICAST_L2_XID": exclusion}, {"$DEV_PORT": (port,)})
                for exclusion, port in exclusion_ids(chip)
            ]
        )

    def add_member(self, job: Receivers, member: int) -> None:
        """Enters a member's node, and with the last member the job's group."""
        rid = job.rid(member)
        self._journal.insert(job, [_node(rid, rid, job.stations[member].port)], member)
        if len(job.stations) == job.members:
            group = _group(job.group, [job.rid(one) for one in range(job.members)])
            self._journal.insert(job, [group], OF_GROUP)


def exclusion_ids(chip: Chip) -> list[tuple[int, int]]:
    """Returns (exclusion id, port) for each port. The id is not the port's number, because the chip has ids up to 287
    only. Nor is it 0, the id of packets that set none."""
    return list(enumerate(chip.attached, 1))


def _node(number: int, rid: int, port: int) -> Entry:
    data: dict[str, Value] = {"$MULTICAST_RID": rid, "$MULTICAST_LAG_ID": (), "$DEV_PORT": (port,)}
    return Entry("$pre.node", {"$MULTICAST_NODE_ID": number}, data)


def _group(number: int, nodes: list[int]) -> Entry:
    return Entry(
        "$pre.mgid",
        {"$MGID": number},
        {
            "$MULTICAST_NODE_ID": tuple(nodes),
            "$MULTICAST_NODE_L1_XID_VALID": tuple([False] * len(nodes)),
            "$MULTICAST_NODE_L1_XID": tuple([0] * len(nodes)),
        },
    )
