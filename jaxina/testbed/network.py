"""Makes and removes the testbed's namespaces and its shaped links.

There is one namespace per worker and server, one for the switch, and one with the bridge that connects them. Nothing
is added to the host's own namespace. Both ends of a worker's or server's link send at the given rate. The switch's
link has the rate of all workers' links together. That is because a real aggregating switch has a port for each
worker, and here one software switch stands for it.

With racks, each rack has a namespace with a bridge, and one with the rack's switch. A link leads from there to the
bridge of the core, where the core's switch and the servers are. The oversubscription says how many times as fast the
links of a rack's workers are together as this link.

A file lists what was made, with the inode of each namespace. `down` removes exactly that. So does `up` if it fails.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from jaxina.errors import InvalidArgumentError, SystemCallError
from jaxina.testbed import links
from jaxina.testbed.places import BRIDGE, NAMESPACES, UPLINK, Host, Link, Size, Testbed, hosts_of
from jaxina.testbed.random_loss import pinned

STATE = Path("/run/jaxina-testbed.json")
RATES = Path("/run/jaxina-testbed-rates.jsonl")
"""What `jaxina testbed shape` writes, for the monitor of `jaxina fabric scheduler`."""
_HOSTS = Path("/etc/netns")  # `ip netns exec` lets a namespace's files in it replace those in /etc


def up(size: Size, link: Link) -> Testbed:
    """Makes a testbed.

    Args:
      size: how many hosts it has.
      link: how its links are.

    Raises:
      InvalidArgumentError: a testbed is up already, or namespaces with its names exist that it did not make.
      SystemCallError: this process is not root's, a tool is missing, or the kernel refused.
    """
    _check_tools(link)
    if STATE.exists():
        raise InvalidArgumentError("a testbed is up already: `jaxina testbed down` removes it")
    testbed = Testbed(size, link, {})
    hosts = hosts_of(testbed)
    bridges = [BRIDGE, *(testbed.rack_namespace(rack) for rack in range(size.racks) if size.racks > 1)]
    for name in (*bridges, *(host.namespace for host in hosts)):
        if (NAMESPACES / name).exists() or (_HOSTS / name).exists():
            raise InvalidArgumentError(
                f"a namespace {name}, or files for it in {_HOSTS}, exist and are not the testbed's: remove them first"
            )
    try:
        for bridge in bridges:
            _add_namespace(testbed, bridge)
            links.run("ip", "-n", bridge, "link", "add", "bridge", "type", "bridge")
            links.run("ip", "-n", bridge, "link", "set", "bridge", "mtu", str(link.mtu), "up")
        for number, rack in enumerate(bridges[1:]):
            links.connect(rack, UPLINK, BRIDGE, f"rack{number}", link.mtu, testbed.core_rate)
            links.run("ip", "-n", rack, "link", "set", UPLINK, "master", "bridge")
        for number, host in enumerate(hosts):
            _add_namespace(testbed, host.namespace)
            links.run("ip", "-n", host.namespace, "link", "set", "lo", "up")
            links.connect(host.namespace, "eth0", host.bridge, f"port{number}", link.mtu, host.rate)
            _address(host)
        if link.loss:
            with pinned(link.loss) as program:
                for number, host in enumerate(hosts):
                    links.lose(host.namespace, host.bridge, f"port{number}", program)
    except BaseException:
        with contextlib.suppress(SystemCallError, OSError):  # down() says it again; the first error says why
            _remove(testbed)
        raise
    return testbed


def without_bridge(testbed: Testbed, rack: int | None = None) -> list[str]:
    """Takes a bridge out, so that a transparent switch can stand in its place.

    The switch must run in the bridge's namespace, `places.BRIDGE` or `Testbed.rack_namespace`. That gets the address
    `Testbed.transparent_host` or `Testbed.transparent_rack_host`. Until it does, the hosts do not reach each other.

    Args:
      testbed: the testbed.
      rack: the rack whose bridge it is. None: the one of a testbed without racks, or that of the core.

    Returns:
      The interfaces between which it must stand.

    Raises:
      SystemCallError: the kernel refused.
    """
    if rack is None:
        namespace, address = BRIDGE, testbed.transparent_host
        ports = [f"rack{number}" for number in range(testbed.size.racks) if testbed.size.racks > 1]
    else:
        namespace, address = testbed.rack_namespace(rack), testbed.transparent_rack_host(rack)
        ports = [UPLINK]
    ports += [f"port{number}" for number, host in enumerate(hosts_of(testbed)) if host.bridge == namespace]
    for port in ports:
        links.run("ip", "-n", namespace, "link", "set", port, "nomaster")
    links.run("ip", "-n", namespace, "link", "add", "own", "type", "veth", "peer", "name", "own-port")
    links.run("ip", "-n", namespace, "addr", "add", f"{address}/15", "dev", "own")
    for interface in ("own", "own-port"):
        links.run("ip", "-n", namespace, "link", "set", interface, "up")
    return [*ports, "own-port"]


def reshape(testbed: Testbed, rates: Mapping[int, tuple[int, int]]) -> None:
    """Changes workers' links while they are used.

    Args:
      testbed: it must be up.
      rates: what workers send and receive, in kbit/s, by rank.

    Raises:
      SystemCallError: this process is not root's, or the kernel refused.
    """
    ports = {host.namespace: (host.bridge, f"port{number}") for number, host in enumerate(hosts_of(testbed))}
    for rank, (out, into) in rates.items():
        namespace = testbed.worker_namespace(rank)
        links.reshape(namespace, "eth0", out)
        links.reshape(*ports[namespace], into)


def find() -> Testbed:
    """Finds the testbed that is up.

    Raises:
      InvalidArgumentError: none is.
    """
    try:
        record = json.loads(STATE.read_text())
    except FileNotFoundError:
        raise InvalidArgumentError("no testbed is up: `jaxina testbed up` makes one") from None
    return Testbed(Size(**record["size"]), Link(**record["link"]), record["inodes"])


def down() -> None:
    """Removes the testbed, and kills what still runs in it.

    Raises:
      InvalidArgumentError: no testbed is up.
      SystemCallError: this process is not root's, or the kernel refused.
    """
    _remove(find())


def _remove(testbed: Testbed) -> None:
    for name, inode in testbed.inodes.items():
        path = NAMESPACES / name
        if path.exists() and inode in (None, path.stat().st_ino):
            pids = links.run("ip", "netns", "pids", name).split()
            if pids:
                subprocess.run(["kill", "-KILL", *pids], check=False, capture_output=True)
            links.run("ip", "netns", "del", name)
        shutil.rmtree(_HOSTS / name, ignore_errors=True)
    STATE.unlink(missing_ok=True)
    RATES.unlink(missing_ok=True)


def _check_tools(link: Link) -> None:
    if os.geteuid() != 0:
        raise SystemCallError("a testbed of network namespaces needs root")
    tools = {"ip": "iproute2", "tc": "iproute2", **({"ethtool": "ethtool"} if link.loss else {})}
    missing = sorted({package for tool, package in tools.items() if shutil.which(tool) is None})
    if missing:
        raise SystemCallError(f"a testbed needs Debian's {' and '.join(missing)}: apt-get install {' '.join(missing)}")


def _add_namespace(testbed: Testbed, name: str) -> None:
    _record(testbed, name, None)  # before it is made, so that it is found whatever happens
    try:
        links.run("ip", "netns", "add", name)
    except SystemCallError:
        del testbed.inodes[name]  # if there is one now, somebody else made it
        raise
    _record(testbed, name, (NAMESPACES / name).stat().st_ino)


def _record(testbed: Testbed, name: str, inode: int | None) -> None:
    testbed.inodes[name] = inode
    STATE.write_text(json.dumps(dataclasses.asdict(testbed)))


def _address(host: Host) -> None:
    links.run("ip", "-n", host.namespace, "addr", "add", f"{host.address}/15", "dev", "eth0")
    # Programs find their own address by looking up the host's name. So that name must have the namespace's address.
    files = _HOSTS / host.namespace
    files.mkdir(parents=True)
    (files / "hosts").write_text(f"127.0.0.1 localhost\n{host.address} {os.uname().nodename}\n")
