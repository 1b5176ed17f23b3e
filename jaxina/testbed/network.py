"""Makes and removes the testbed's namespaces and its shaped links.

There is one namespace per worker, one for the switch, and one with the bridge that connects them. Nothing is added to
the host's own namespace. Both ends of a worker's link send at the given rate. The switch's link has the rate of all
workers' links together. That is because a real aggregating switch has a port for each worker, and here one software
switch stands for it.

A file lists what was made, with the inode of each namespace. `down` removes exactly that.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from jaxina.errors import InvalidArgumentError, SystemCallError
from jaxina.testbed.random_loss import pinned

STATE = Path("/run/jaxina-testbed.json")
_NAMESPACES = Path("/run/netns")
_HOSTS = Path("/etc/netns")  # `ip netns exec` lets a namespace's files in it replace those in /etc
_BRIDGE = "jaxina-bridge"
_SWITCH = "jaxina-switch"
_SWITCH_ADDRESS = "198.18.0.1"  # 198.18.0.0/15 is for benchmarks of networks (RFC 2544)
MAX_WORKERS = 64
# Room for packets that wait at the end of a link: 5 ms at its rate, as in a small switch, but at least some large
# packets.
_QUEUE_S = 0.005
_MIN_QUEUE = 1 << 18
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
class Testbed:
    """A testbed that is up.

    Attributes:
      workers: how many workers it has room for.
      link: how its links are.
      inodes: the inodes of its namespaces, by name.
    """

    workers: int
    link: Link
    inodes: dict[str, int]

    switch_host = _SWITCH_ADDRESS
    switch_namespace = _SWITCH

    @staticmethod
    def worker_namespace(rank: int) -> str:
        """The name of a worker's namespace."""
        return f"jaxina-worker-{rank}"

    @staticmethod
    def worker_host(rank: int) -> str:
        """The address of a worker."""
        return f"198.18.1.{rank + 1}"

    @staticmethod
    def inside(namespace: str) -> list[str]:
        """The words to put before a command to run it in the namespace."""
        return ["ip", "netns", "exec", namespace]

    @staticmethod
    def enter(namespace: str) -> None:
        """Moves this thread into the network of the namespace.

        Raises:
          SystemCallError: the kernel refused.
        """
        with (_NAMESPACES / namespace).open() as file:
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


def up(workers: int, link: Link) -> Testbed:
    """Makes a testbed.

    Args:
      workers: how many workers it has room for, from 1 to 64.
      link: how its links are.

    Raises:
      InvalidArgumentError: a testbed is up already, or namespaces with its names exist that it did not make.
      SystemCallError: this process is not root's, a tool is missing, or the kernel refused.
    """
    _check_tools(link)
    if not 1 <= workers <= MAX_WORKERS:
        raise InvalidArgumentError(f"a testbed has 1 to {MAX_WORKERS} workers, not {workers}")
    if STATE.exists():
        raise InvalidArgumentError("a testbed is up already: `jaxina testbed down` removes it")
    hosts = {_SWITCH: _SWITCH_ADDRESS}
    hosts |= {Testbed.worker_namespace(rank): Testbed.worker_host(rank) for rank in range(workers)}
    for name in (_BRIDGE, *hosts):
        if (_NAMESPACES / name).exists() or (_HOSTS / name).exists():
            raise InvalidArgumentError(
                f"a namespace {name}, or files for it in {_HOSTS}, exist and are not the testbed's: remove them first"
            )
    testbed = Testbed(workers, link, {})
    try:
        for name in (_BRIDGE, *hosts):
            _add_namespace(testbed, name)
        _run("ip", "-n", _BRIDGE, "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", _BRIDGE, "link", "set", "bridge", "mtu", str(link.mtu), "up")
        for number, (name, host) in enumerate(hosts.items()):
            _connect(name, host, f"port{number}", link, link.rate * (workers if name == _SWITCH else 1))
        if link.loss:
            with pinned(link.loss) as program:
                for number, name in enumerate(hosts):
                    _lose(name, f"port{number}", program)
    except BaseException:
        down()
        raise
    return testbed


def find() -> Testbed:
    """Finds the testbed that is up.

    Raises:
      InvalidArgumentError: none is.
    """
    try:
        record = json.loads(STATE.read_text())
    except FileNotFoundError:
        raise InvalidArgumentError("no testbed is up: `jaxina testbed up` makes one") from None
    return Testbed(record["workers"], Link(**record["link"]), record["inodes"])


def down() -> None:
    """Removes the testbed, and kills what still runs in it.

    Raises:
      InvalidArgumentError: no testbed is up.
    """
    testbed = find()
    for name, inode in testbed.inodes.items():
        path = _NAMESPACES / name
        if path.exists() and path.stat().st_ino == inode:
            pids = _run("ip", "netns", "pids", name).split()
            if pids:
                subprocess.run(["kill", "-KILL", *pids], check=False, capture_output=True)
            _run("ip", "netns", "del", name)
        shutil.rmtree(_HOSTS / name, ignore_errors=True)
    STATE.unlink()


def _set_namespace(fd: int) -> None:
    if _libc.setns(fd, _CLONE_NEWNET) != 0:
        raise SystemCallError(f"setns: {os.strerror(ctypes.get_errno())}")


def _check_tools(link: Link) -> None:
    if os.geteuid() != 0:
        raise SystemCallError("a testbed of network namespaces needs root")
    tools = {"ip": "iproute2", "tc": "iproute2", **({"ethtool": "ethtool"} if link.loss else {})}
    missing = sorted({package for tool, package in tools.items() if shutil.which(tool) is None})
    if missing:
        raise SystemCallError(f"a testbed needs Debian's {' and '.join(missing)}: apt-get install {' '.join(missing)}")


def _add_namespace(testbed: Testbed, name: str) -> None:
    _run("ip", "netns", "add", name)
    testbed.inodes[name] = (_NAMESPACES / name).stat().st_ino
    STATE.write_text(json.dumps(dataclasses.asdict(testbed)))  # right away, so that down() finds it whatever happens
    _run("ip", "-n", name, "link", "set", "lo", "up")


def _connect(name: str, host: str, port: str, link: Link, rate: int) -> None:
    """Makes a shaped link from the namespace's eth0 to a port of the bridge."""
    _run(
        *("ip", "-n", name, "link", "add", "eth0", "mtu", str(link.mtu), "type", "veth"),
        *("peer", "name", port, "mtu", str(link.mtu), "netns", _BRIDGE),
    )
    _run("ip", "-n", name, "addr", "add", f"{host}/15", "dev", "eth0")
    _run("ip", "-n", _BRIDGE, "link", "set", port, "master", "bridge")
    for namespace, interface in ((name, "eth0"), (_BRIDGE, port)):
        _shape(namespace, interface, rate)
        _run("ip", "-n", namespace, "link", "set", interface, "up")
    # Programs find their own address by looking up the host's name. So that name must have the namespace's address.
    files = _HOSTS / name
    files.mkdir(parents=True)
    (files / "hosts").write_text(f"127.0.0.1 localhost\n{host} {os.uname().nodename}\n")


def _shape(namespace: str, interface: str, rate: int) -> None:
    per_second = rate * 1_000_000 // 8
    queue = max(_MIN_QUEUE, int(per_second * _QUEUE_S))
    burst = max(65536, per_second // 1000)
    tc = ("tc", "-n", namespace)
    _run(*tc, "qdisc", "add", "dev", interface, "root", "handle", "1:", "htb", "default", "1")
    shape = ("rate", f"{rate}mbit", "burst", str(burst), "cburst", str(burst), "quantum", "60000")
    _run(*tc, "class", "add", "dev", interface, "parent", "1:", "classid", "1:1", "htb", *shape)
    _run(*tc, "qdisc", "add", "dev", interface, "parent", "1:1", "bfifo", "limit", str(queue))


def _lose(name: str, port: str, program: Path) -> None:
    tc = ("tc", "-n", _BRIDGE)
    _run(*tc, "qdisc", "add", "dev", port, "clsact")
    for direction in ("ingress", "egress"):
        # Only IP is dropped, not ARP: after three unanswered ARP requests the kernel drops all packets for that
        # neighbour.
        chosen = ("protocol", "ip", "bpf", "da", "object-pinned", str(program))
        _run(*tc, "filter", "add", "dev", port, direction, *chosen)
    # The kernel handles several packets as one large one, which would be lost as a whole. So the sending end cuts it
    # into packets, as a network card would, and the bridge sees each packet alone. The receiving end joins what is
    # left.
    offloads = [f for feature in ("tx-udp-segmentation", "tso", "gso") for f in (feature, "off")]
    _run(*Testbed.inside(name), "ethtool", "-K", "eth0", *offloads, "gro", "on")


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemCallError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
