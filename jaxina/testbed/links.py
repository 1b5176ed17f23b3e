"""Shaped links between network namespaces, made with Debian's iproute2 and ethtool."""

from __future__ import annotations

import subprocess
from pathlib import Path

from jaxina.errors import SystemCallError

# Room for packets that wait at the end of a link: 5 ms at its rate, as in a small switch, but at least some large
# packets.
_QUEUE_S = 0.005
_MIN_QUEUE = 1 << 18


def inside(namespace: str) -> list[str]:
    """The words to put before a command to run it in the namespace."""
    return ["ip", "netns", "exec", namespace]


def connect(namespace: str, interface: str, bridge: str, port: str, mtu: int, rate: int) -> None:
    """Makes a link from the namespace's interface to a port of the bridge, of `rate` Mbit/s each way."""
    run(
        *("ip", "-n", namespace, "link", "add", interface, "mtu", str(mtu), "type", "veth"),
        *("peer", "name", port, "mtu", str(mtu), "netns", bridge),
    )
    run("ip", "-n", bridge, "link", "set", port, "master", "bridge")
    for end, name in ((namespace, interface), (bridge, port)):
        _shape(end, name, rate)
        run("ip", "-n", end, "link", "set", name, "up")


def lose(namespace: str, bridge: str, port: str, program: Path) -> None:
    """Lets the link between the namespace's eth0 and this port lose packets, as the BPF program says."""
    tc = ("tc", "-n", bridge)
    run(*tc, "qdisc", "add", "dev", port, "clsact")
    for direction in ("ingress", "egress"):
        # Only IP is dropped, not ARP: after three unanswered ARP requests the kernel drops all packets for that
        # neighbour.
        chosen = ("protocol", "ip", "bpf", "da", "object-pinned", str(program))
        run(*tc, "filter", "add", "dev", port, direction, *chosen)
    # The kernel handles several packets as one large one, which would be lost as a whole. So the sending end cuts it
    # into packets, as a network card would, and the bridge sees each packet alone. The receiving end joins what is
    # left.
    offloads = [f for feature in ("tx-udp-segmentation", "tso", "gso") for f in (feature, "off")]
    run(*inside(namespace), "ethtool", "-K", "eth0", *offloads, "gro", "on")


def reshape(namespace: str, interface: str, rate: int) -> None:
    """Gives what the interface sends another rate, in kbit/s. What waits in its queue stays."""
    run("tc", "-n", namespace, "class", "change", "dev", interface, "parent", "1:", "classid", "1:1", *_htb(rate))


def _shape(namespace: str, interface: str, rate: int) -> None:
    queue = max(_MIN_QUEUE, int(rate * 1_000_000 // 8 * _QUEUE_S))
    tc = ("tc", "-n", namespace)
    run(*tc, "qdisc", "add", "dev", interface, "root", "handle", "1:", "htb", "default", "1")
    run(*tc, "class", "add", "dev", interface, "parent", "1:", "classid", "1:1", *_htb(1000 * rate))
    run(*tc, "qdisc", "add", "dev", interface, "parent", "1:1", "bfifo", "limit", str(queue))


def _htb(rate: int) -> tuple[str, ...]:
    burst = str(max(65536, rate // 8))  # bytes: what goes in a millisecond
    return ("htb", "rate", f"{rate}kbit", "burst", burst, "cburst", burst, "quantum", "60000")


def run(*command: str) -> str:
    """Runs a command and returns its output. Raises SystemCallError with its message if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemCallError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
