"""The traffic manager, between ingress and egress: it decides by which ports a packet leaves, and in how many
copies."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from interpreter.errors import UndefinedError
from interpreter.values import Value

_METADATA = "for_tm"
_LAST_EXCLUSION_ID = 287
_GLOBAL_RID = 0  # of packets whose exclusion id counts for all nodes. It is the chip's after a reset, and the driver's


@dataclasses.dataclass(frozen=True)
class Copy:
    port: int
    rid: int
    bypass: bool  # whether the copy skips egress


class TrafficManager:
    """A traffic manager.

    Attributes:
      nodes: (replication id, ports), by the node's number.
      groups: the numbers of the nodes of a multicast group, by the group's number.
      prunes: the ports that get no copy, by level 2 exclusion id.
    """

    def __init__(self) -> None:
        self.nodes: dict[int, tuple[int, tuple[int, ...]]] = {}
        self.groups: dict[int, tuple[int, ...]] = {}
        self.prunes: dict[int, tuple[int, ...]] = {}

    def copies(self, values: dict[str, Value]) -> Iterator[Copy]:
        """Yields the copies that ingress has asked for. A field that it has not set asks for nothing."""

        def asked(name: str) -> int | None:
            value = values.get(f"{_METADATA}.{name}")
            return None if value is None else value.__index__()

        bypass = bool(asked("bypass_egress"))
        port, group = asked("ucast_egress_port"), asked("mcast_grp_a")
        if port is not None:
            yield Copy(port, 0, bypass)
        if group:
            exclusion = asked("level2_exclusion_id") or 0
            if exclusion > _LAST_EXCLUSION_ID:
                raise UndefinedError(f"has exclusion id {exclusion}; the chip has ids up to {_LAST_EXCLUSION_ID}")
            excluded = self.prunes.get(exclusion, ())
            for node in self._group(group):
                rid, ports = self.nodes[node]
                prunes = (asked("rid") or 0) in (_GLOBAL_RID, rid)
                for port in ports:
                    if not prunes or port not in excluded:
                        yield Copy(port, rid, bypass)

    def _group(self, group: int) -> tuple[int, ...]:
        if group not in self.groups:
            raise UndefinedError(f"goes to multicast group {group}, which there is not")
        return self.groups[group]
