"""What is wrong with a cluster, found from what its hosts told and measured. A pure function."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from jaxina.doctor.facts import Facts
from jaxina.doctor.probes import Measured

BUFFER = 32 << 20  # bytes of buffer that the switch's and the servers' sockets ask for
_CLOCKS = 1.0  # seconds that two clocks may be apart
_LOSS = 0.0  # share of probes that may be lost

Pair = tuple[int, int]  # from one node to another


@dataclasses.dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Attributes:
      code: names the check: NAMES, ADDRESSES, VERSIONS, TCP, UDP, LOSS, MTU, CLOCKS or BUFFERS.
      what: what is wrong, in words.
      mend: what to do.
      stops: whether jobs cannot run so. Otherwise they run, but worse than they could.
    """

    code: str
    what: str
    mend: str
    stops: bool


def problems(hosts: Sequence[Facts], measured: Mapping[Pair, Measured]) -> list[Problem]:
    """Finds what is wrong.

    Args:
      hosts: what the hosts told, by node.
      measured: what each has found about the way to each other one.
    """
    found: list[Problem] = []
    for one, other in itertools.combinations(hosts, 2):
        found += _alike(one, other)
        ahead = [
            seconds
            for pair, sign in (((one.node, other.node), 1), ((other.node, one.node), -1))
            if pair in measured and (clock := measured[pair].ahead_s) is not None
            for seconds in [sign * clock]
        ]
        if ahead and abs(ahead[0]) > _CLOCKS:
            direction = "ahead of" if ahead[0] > 0 else "behind"
            what = f"the clock of {other} is {abs(ahead[0]):,.0f} s {direction} that of {one}"
            found.append(Problem("CLOCKS", what, "run an NTP client on both (chrony, systemd-timesyncd)", False))
    for (source, target), way in sorted(measured.items()):
        found += _way(hosts[source], hosts[target], way)
    for name in hosts[0].versions:
        versions = {host.versions[name] for host in hosts}
        if len(versions) > 1:
            told = ", ".join(f"{host.versions[name]} at {host}" for host in hosts)
            found.append(Problem("VERSIONS", f"{name} differs: {told}", "install the same version everywhere", True))
    for host in hosts:
        found += [
            Problem(
                "BUFFERS",
                f"{host}: {name} is {value:,} bytes, and jaxina asks for {BUFFER:,}, so packets of many "
                "workers at once may "
                "be lost",
                f"there: sysctl -w {name}={BUFFER}",
                False,
            )
            for name, value in host.limits.items()
            if value < BUFFER
        ]
    return sorted(found, key=lambda problem: not problem.stops)


def _alike(one: Facts, other: Facts) -> list[Problem]:
    found = []
    if one.name == other.name:
        what = f"node {one.node} ({one.address}) and node {other.node} ({other.address}) have one name, {one.name}"
        found.append(Problem("NAMES", what, "give each host a name of its own: hostnamectl hostname NAME", True))
    if one.address == other.address:
        mend = "set JAXINA_INTERFACE to the interface or the subnet that connects the hosts"
        found.append(Problem("ADDRESSES", f"{one} and {other} use one address", mend, True))
    return found


def _way(source: Facts, target: Facts, way: Measured) -> list[Problem]:
    between = f"from {source} to {target}"
    found = []
    if way.tcp:
        mend = "check the route, and let firewalls pass TCP between the hosts (JAXINA_PORTS fixes the ports)"
        found.append(Problem("TCP", f"no connection {between}, port {target.tcp}: {way.tcp}", mend, True))
    if way.latency_s is None:
        mend = "check the route, and let firewalls pass UDP between the hosts (JAXINA_PORTS fixes the ports)"
        found.append(Problem("UDP", f"no packet arrives {between}, port {target.udp}", mend, True))
        return found
    if way.lost > _LOSS:
        mend = "look at the links' error counters (ethtool -S) and at what else uses them; jobs run, but slower"
        found.append(Problem("LOSS", f"{way.lost:.0%} of small packets are lost {between}", mend, False))
    if way.mtu < source.mtu:
        mend = f"set the MTU of {source.interface} to {way.mtu}, or raise that of the devices between the hosts"
        what = (
            f"packets of more than {way.mtu} bytes vanish {between}, though the MTU of {source.interface} is "
            f"{source.mtu}"
        )
        found.append(Problem("MTU", what, mend, True))
    return found
