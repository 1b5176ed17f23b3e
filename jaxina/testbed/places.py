"""What a testbed consists of: its links, its hosts, their addresses and the namespaces that they are in."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from jaxina.errors import InvalidArgumentError, SystemCallError
from jaxina.testbed import links

NAMESPACES = Path("/run/netns")
BRIDGE = "jaxina-bridge"
UPLINK = "core"  # the interface of a rack's bridge that leads to the core's
MAX_WORKERS = 64
_SWITCH = "jaxina-switch"
_SWITCH_ADDRESS = "198.18.0.1"  # 198.18.0.0/15 is for benchmarks of networks (RFC 2544)
_TRANSPARENT_ADDRESS = "198.18.0.2"
_CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Link:
    """How the links are.

    Attributes:
      rate: of a worker's link, each way, in megabits per second.
      loss: the share of IP packets that a link loses, each way.
      mtu: the largest IP packet, in bytes.

    Raises:
      InvalidArgumentError: a value is not allowed.
    """

    rate: int
    loss: float = 0.0
    mtu: int = 1500

    def __post_init__(self) -> None:
        if not 1 <= self.rate <= 100_000:
            raise InvalidArgumentError(f"the rate is {self.rate} Mbit/s; it must be from 1 to 100000")
        if not 0 <= self.loss < 1:
            raise InvalidArgumentError(f"the loss is {self.loss}; it must be from 0 to below 1")
        if not 1280 <= self.mtu <= 65535:
            raise InvalidArgumentError(f"the MTU is {self.mtu} bytes; it must be from 1280 to 65535")


@dataclasses.dataclass(frozen=True)
class Size:
    """How many hosts a testbed has, and where.

    Attributes:
      workers: how many workers it has room for, from 1 to 64.
      racks: in how many racks they are; those of a rack follow one another. With one rack there is no core.
      oversubscription: the rate of all workers' links of a rack, divided by that of the rack's link to the core.
      servers: how many hosts it has for servers.

    Raises:
      InvalidArgumentError: a value is not allowed.
    """

    workers: int
    racks: int = 1
    oversubscription: float = 1.0
    servers: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= MAX_WORKERS:
            raise InvalidArgumentError(f"a testbed has 1 to {MAX_WORKERS} workers, not {self.workers}")
        if self.racks < 1 or self.workers % self.racks != 0:
            raise InvalidArgumentError(f"{self.workers} workers cannot be in {self.racks} racks of one size")
        if not 1 <= self.oversubscription <= MAX_WORKERS:
            raise InvalidArgumentError(
                f"the oversubscription is {self.oversubscription}; it must be from 1 to {MAX_WORKERS}"
            )
        if not 0 <= self.servers <= MAX_WORKERS:
            raise InvalidArgumentError(f"a testbed has at most {MAX_WORKERS} hosts for servers, not {self.servers}")


@dataclasses.dataclass(frozen=True)
class Testbed:
    """A testbed that is up.

    Attributes:
      size: how many hosts it has.
      link: how its links are.
      inodes: the inodes of its namespaces, by name; None: it was about to be made.
    """

    size: Size
    link: Link
    inodes: dict[str, int | None]

    switch_host = _SWITCH_ADDRESS
    switch_namespace = _SWITCH
    transparent_host = _TRANSPARENT_ADDRESS

    @property
    def core_rate(self) -> int:
        """The rate of a rack's link to the core, each way, in megabits per second."""
        return max(1, round(self.link.rate * self.size.workers / self.size.racks / self.size.oversubscription))

    @staticmethod
    def rack_namespace(rack: int) -> str:
        """The name of the namespace with a rack's bridge."""
        return f"jaxina-rack-{rack}"

    @staticmethod
    def rack_switch_namespace(rack: int) -> str:
        """The name of the namespace of a rack's switch."""
        return f"jaxina-switch-{rack}"

    @staticmethod
    def rack_switch_host(rack: int) -> str:
        """The address of a rack's switch."""
        return f"198.18.2.{rack + 1}"

    @staticmethod
    def transparent_rack_host(rack: int) -> str:
        """The address of a transparent switch in the place of a rack's bridge."""
        return f"198.18.3.{rack + 1}"

    @staticmethod
    def server_namespace(server: int) -> str:
        """The name of a server's namespace."""
        return f"jaxina-server-{server}"

    @staticmethod
    def server_host(server: int) -> str:
        """The address of a server."""
        return f"198.18.3.{server + 1}"

    def core_bytes(self, rack: int) -> tuple[int, int]:
        """How many bytes have crossed a rack's link to the core since the testbed is up: to the core, and from it."""
        return _bytes(self.rack_namespace(rack), UPLINK)

    def received_bytes(self, rank: int) -> int:
        """How many bytes a worker's link has brought it since the testbed is up."""
        return _bytes(self.worker_namespace(rank), "eth0")[1]

    @staticmethod
    def worker_namespace(rank: int) -> str:
        """The name of a worker's namespace."""
        return f"jaxina-worker-{rank}"

    @staticmethod
    def worker_host(rank: int) -> str:
        """The address of a worker."""
        return f"198.18.1.{rank + 1}"

    inside = staticmethod(links.inside)

    @staticmethod
    def enter(namespace: str) -> None:
        """Moves this thread into the network of the namespace.

        Raises:
          SystemCallError: the kernel refused.
        """
        with (NAMESPACES / namespace).open() as file:
            _set_namespace(file.fileno())

    @staticmethod
    def within(namespace: str, make: Callable[[], T]) -> T:
        """Calls `make` in the network of the namespace, and returns its result.

        Raises:
          SystemCallError: the kernel refused.
        """
        with Path("/proc/thread-self/ns/net").open() as home:
            Testbed.enter(namespace)
            try:
                return make()
            finally:
                _set_namespace(home.fileno())


def _bytes(namespace: str, interface: str) -> tuple[int, int]:
    """How many bytes the interface has sent and received."""
    (told,) = json.loads(links.run("ip", "-n", namespace, "-j", "-s", "link", "show", interface))
    return told["stats64"]["tx"]["bytes"], told["stats64"]["rx"]["bytes"]


@dataclasses.dataclass(frozen=True)
class Host:
    """A host of the testbed: its address, the namespace of the bridge that it is at, and its link's rate."""

    namespace: str
    address: str
    bridge: str
    rate: int


def hosts_of(testbed: Testbed) -> list[Host]:
    """All hosts of the testbed."""
    size, rate = testbed.size, testbed.link.rate
    in_rack = size.workers // size.racks
    bridges = [testbed.rack_namespace(rack) for rack in range(size.racks)] if size.racks > 1 else [BRIDGE]
    hosts = [Host(_SWITCH, _SWITCH_ADDRESS, BRIDGE, rate * size.workers)]
    hosts += [
        Host(testbed.worker_namespace(rank), testbed.worker_host(rank), bridges[rank // in_rack], rate)
        for rank in range(size.workers)
    ]
    hosts += [
        Host(testbed.server_namespace(server), testbed.server_host(server), BRIDGE, rate)
        for server in range(size.servers)
    ]
    for rack, bridge in enumerate(bridges if size.racks > 1 else []):
        its_rate = rate * in_rack + testbed.core_rate
        hosts.append(Host(testbed.rack_switch_namespace(rack), testbed.rack_switch_host(rack), bridge, its_rate))
    return hosts


def _set_namespace(fd: int) -> None:
    if _libc.setns(fd, _CLONE_NEWNET) != 0:
        raise SystemCallError(f"setns: {os.strerror(ctypes.get_errno())}")
