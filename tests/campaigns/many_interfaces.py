#!/usr/bin/env python3
"""Starts jobs between hosts that have four interfaces each, of which most lead nowhere, and whose names are loopback.

    tests/campaigns/many_interfaces.py              # 20 jobs; needs root and iproute2

The hosts are network namespaces. On each host
* eth0 has the same address on all hosts, as a container's bridge has, and no link to the others;
* eth1 has an address of its own, but what it sends is lost;
* eth2 works, over IPv4, with an MTU of 1400;
* eth3 works, over IPv6;
* /etc/hosts says that the host's own name is 127.0.1.1, as Debian does.

Each job sums with jaxina, lets XLA's partitioner insert a collective, and compares. The exit code is 1 if any job
fails.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PREFIX = "jaxina-many"
HOSTS = 3  # two of workers, and one of a switch
SWITCH = 2
PORT = 50000
PROGRAM = """
import jax, jax.numpy as jnp, jaxina
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
with jaxina.init(join_timeout=60, timeout=60) as job:
    mesh = Mesh(jax.devices(), ("w",))
    local = lambda x: jax.make_array_from_callback((job.processes, 512), NamedSharding(mesh, P("w")), lambda _: x)
    x = local(jnp.full((1, 512), 1.0 + jax.process_index()))
    total = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, "w"), mesh=mesh, in_specs=P("w"), out_specs=P()))(x)
    assert float(total[0, 0]) == 3.0, total
    other = jax.jit(lambda x: x.sum(0), out_shardings=NamedSharding(mesh, P()))(x)
    assert float(other[0]) == 3.0, other
    print("summed", job.aggregator, flush=True)
"""


@dataclasses.dataclass(frozen=True)
class Join:
    """How one job is started."""

    aggregator: str
    interface: str | None  # JAXINA_INTERFACE
    coordinator: str
    catch_all: bool = True
    ports: str | None = None

    def __str__(self) -> str:
        way = "" if self.catch_all else ", gloo"
        return f"{self.aggregator}, interface {self.interface}, coordinator {self.coordinator}{way}, ports {self.ports}"


V4, V6 = "10.2.0.1", "[fd00:3::1]"
JOINS = [
    Join(aggregator, interface, f"host0:{PORT}", catch_all, ports)
    for (aggregator, catch_all, ports), interface in itertools.product(
        [("direct", True, None), ("direct", False, "51100-51120"), ("udp", True, None), ("netreduce", True, None)],
        ["eth2", "10.2.0.0/24", "eth9,eth2"],
    )
] + [
    Join("atp", "eth2", f"host0:{PORT}"),
    Join("roce", "10.2.0.0/24", f"host0:{PORT}"),
    Join("direct", "eth3", f"{V6}:{PORT}"),
    Join("direct", "fd00:3::/64", f"{V6}:{PORT}", False, "51100-51120"),
    Join("udp", "eth3", f"{V6}:{PORT}"),
    Join("direct", None, f"{V4}:{PORT}"),
    Join("udp", None, f"{V4}:{PORT}", False),
    Join("direct", None, f"{V6}:{PORT}"),
]


# Jobs that cannot be, with what their errors say.
REFUSED = [
    (Join("direct", "10.9.0.0/24", f"host0:{PORT}"), {}, "JAXINA_INTERFACE=10.9.0.0/24: this host has no interface"),
    (Join("direct", None, f"host0:{PORT}"), {}, "host0 is 127.0.1.1 (see /etc/hosts), which no other host reaches"),
    (Join("direct", "eth3", f"{V4}:{PORT}"), {}, "that is up and an IPv4 address"),
    (
        Join("direct", "eth2", f"host0:{PORT}"),
        {"JAXINA_BLOCKS_PER_CHUNK": "2"},
        "are too big for the way from eth2 (10.2.0.",
    ),
]


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def name(host: int) -> str:
    return f"{PREFIX}-{host}"


def up() -> None:
    for bridge in ("v4", "v6"):
        run("ip", "netns", "add", f"{PREFIX}-{bridge}")
        run("ip", "-n", f"{PREFIX}-{bridge}", "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", f"{PREFIX}-{bridge}", "link", "set", "bridge", "up")
    for host in range(HOSTS):
        here = name(host)
        run("ip", "netns", "add", here)
        run("ip", "-n", here, "link", "set", "lo", "up")
        interfaces = {
            "eth0": ("172.17.0.1/16", None, 1500),
            "eth1": (f"10.1.0.{host + 1}/24", None, 1500),
            "eth2": (f"10.2.0.{host + 1}/24", "v4", 1400),
            "eth3": (f"fd00:3::{host + 1}/64", "v6", 1500),
        }
        for interface, (address, bridge, mtu) in interfaces.items():
            other = here if bridge is None else f"{PREFIX}-{bridge}"
            peer = f"lost-{interface}" if bridge is None else f"port{host}"
            run(
                "ip",
                "-n",
                here,
                "link",
                "add",
                interface,
                "mtu",
                str(mtu),
                "type",
                "veth",
                "peer",
                "name",
                peer,
                "netns",
                other,
            )
            run("ip", "-n", other, "link", "set", peer, "mtu", str(mtu), "up")
            if bridge is not None:
                run("ip", "-n", other, "link", "set", peer, "master", "bridge")
            run("ip", "-n", here, "addr", "add", address, "dev", interface, *(["nodad"] if ":" in address else []))
            run("ip", "-n", here, "link", "set", interface, "up")
        files = Path("/etc/netns") / here
        files.mkdir(parents=True, exist_ok=True)
        others = "".join(f"10.2.0.{one + 1} host{one}\n" for one in range(HOSTS) if one != host)
        (files / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 host{host}\n{others}")


def down() -> None:
    for one in [*map(name, range(HOSTS)), f"{PREFIX}-v4", f"{PREFIX}-v6"]:
        subprocess.run(["ip", "netns", "del", one], capture_output=True)
        hosts = Path("/etc/netns") / one / "hosts"
        hosts.unlink(missing_ok=True)
        if hosts.parent.exists():
            hosts.parent.rmdir()


def on(host: int, *command: str, **environment: str) -> subprocess.Popen[str]:
    inside = [
        "ip",
        "netns",
        "exec",
        name(host),
        "unshare",
        "--uts",
        "sh",
        "-c",
        f'hostname host{host}; exec "$@"',
        "sh",
    ]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("JAXINA_")}
    return subprocess.Popen(
        [*inside, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**clean, **environment},
        start_new_session=True,
    )


def start_switch(join: Join) -> tuple[list[subprocess.Popen[str]], dict[str, str]]:
    if join.aggregator not in ("udp", "atp", "roce"):
        return [], {}
    v6 = V6 in join.coordinator
    bind, host = ("eth3", f"[fd00:3::{SWITCH + 1}]") if v6 else ("10.2.0.0/24", f"10.2.0.{SWITCH + 1}")
    rdma = [] if v6 else ["--rdma", host]
    switch = on(
        SWITCH, sys.executable, "-m", "jaxina.cli", "switch", "--bind", f"{bind}:51000", "--threads", "1", *rdma
    )
    assert switch.stdout is not None
    for line in switch.stdout:
        if "control at" in line:
            return [switch], {"JAXINA_SWITCH": f"{host}:51000"}
    raise SystemExit("the switch did not start")


def joins(join: Join, program: Path, **more: str) -> str:
    """Runs a job. Returns why it failed; empty if it did not."""
    started, settings = start_switch(join)
    settings.update(more)
    settings["JAXINA_AGGREGATOR"] = join.aggregator
    settings["JAXINA_CATCH_ALL"] = "yes" if join.catch_all else "no"
    for variable, value in (("JAXINA_INTERFACE", join.interface), ("JAXINA_PORTS", join.ports)):
        if value is not None:
            settings[variable] = value
    command = [sys.executable, "-m", "jaxina.cli", "run", "-n", "1", "--nodes", "2", "--coordinator", join.coordinator]
    nodes = [on(node, *command, "--node", str(node), str(program), **settings) for node in range(2)]
    said = []
    for node in nodes:
        try:
            said.append(node.communicate(timeout=150)[0])
        except subprocess.TimeoutExpired:
            os.killpg(node.pid, 9)
            said.append(node.communicate()[0] + "\nit did not end")
    for one in started:
        os.killpg(one.pid, 9)
        one.communicate()
    good = all(node.returncode == 0 and "summed" in text for node, text in zip(nodes, said, strict=True))
    return "" if good else "\n".join(said)


def examined() -> list[dict[str, Any]]:
    """What `jaxina doctor` says about the workers' hosts."""
    command = [sys.executable, "-m", "jaxina.cli", "doctor", "--nodes", "2", "--coordinator", f"{V4}:{PORT}", "--json"]
    nodes = [on(node, *command, "--node", str(node), JAXINA_INTERFACE="eth2") for node in range(2)]
    said = [node.communicate(timeout=150)[0] for node in nodes]
    try:
        return json.loads(said[0])["problems"]
    except ValueError:
        raise SystemExit("jaxina doctor failed:\n" + "\n".join(said)) from None


def doctor_is_right() -> bool:
    """Whether `jaxina doctor` finds nothing that stops jobs, and then finds a device that drops large packets."""
    before = [problem for problem in examined() if problem["stops"]]
    run("ip", "-n", f"{PREFIX}-v4", "link", "set", "port1", "mtu", "1300")
    after = [problem for problem in examined() if problem["stops"]]
    sizes = [re.search(r"more than (\d+) bytes vanish", problem["what"]) for problem in after]
    # Between namespaces, packets may be longer by the four bytes of a VLAN's tag.
    right = not before and len(sizes) == 2 and all(size and 1300 <= int(size[1]) <= 1304 for size in sizes)
    print(
        f"jaxina doctor: {'right' if right else 'wrong'}: {before}, with an MTU of 1300 on the way: {after}", flush=True
    )
    return bool(right)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--joins", type=int, default=len(JOINS), help="how many, from the list's end")
    options = parser.parse_args()
    failed = joined = 0
    down()
    try:
        up()
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "program.py"
            program.write_text(PROGRAM)
            for join in JOINS[-options.joins :]:
                began = time.monotonic()
                why = joins(join, program)
                joined += not why
                failed += bool(why)
                print(f"{'failed' if why else 'joined'} in {time.monotonic() - began:.0f} s: {join}", flush=True)
                if why:
                    print(why, flush=True)
            for join, more, says in REFUSED:
                why = joins(join, program, JAXINA_JOIN_TIMEOUT="15", **more)
                failed += says not in why
                print(f"{'refused' if says in why else f'not refused: {why}'}: {join}: {says}", flush=True)
        failed += not doctor_is_right()
    finally:
        down()
    print(f"{joined} of {min(options.joins, len(JOINS))} jobs joined")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
