"""Between ingress and egress: which ports a packet leaves by, and how often."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from interpreter.errors import UndefinedError
from interpreter.values import Value

_METADATA = "for_tm"


@dataclasses.dataclass(frozen=True)
class Copy:
    port: int
    rid: int
    bypass: bool  # of egress


class TrafficManager:
    """`nodes` are (replication id, ports) by their numbers, `groups` lists of them, `prunes` the
    ports of a level 2 exclusion id."""

    def __init__(self) -> None:
        self.nodes: dict[int, tuple[int, tuple[int, ...]]] = {}
        self.groups: dict[int, tuple[int, ...]] = {}
        self.prunes: dict[int, tuple[int, ...]] = {}

    def copies(self, values: dict[str, Value]) -> Iterator[Copy]:
        """What ingress has left unset asks for nothing."""

        def asked(name: str) -> int | None:
            value = values.get(f"{_METADATA}.{name}")
            return None if value is None else value.__index__()

        bypass = bool(asked("bypass_egress"))
        port, group = asked("ucast_egress_port"), asked("mcast_grp_a")
        if port is not None:
            yield Copy(port, 0, bypass)
        if group:
            excluded = self.prunes.get(asked("level2_exclusion_id") or 0, ())
            for node in self._group(group):
                rid, ports = self.nodes[node]
                for port in ports:
                    if rid != (asked("rid") or 0) or port not in excluded:
                        yield Copy(port, rid, bypass)

    def _group(self, group: int) -> tuple[int, ...]:
        if group not in self.groups:
            raise UndefinedError(f"goes to multicast group {group}, which there is not")
        return self.groups[group]
