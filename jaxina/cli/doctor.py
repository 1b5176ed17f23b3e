"""``jaxina doctor``: checks a cluster's hosts, each with each other."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jaxina import config
from jaxina.cli.common_options import host_in
from jaxina.control.coordinator import listen
from jaxina.control.interfaces import at_free_port, listening_address, own_host_towards
from jaxina.doctor.facts import Facts, own_facts
from jaxina.doctor.findings import Pair, Problem, problems
from jaxina.doctor.meeting import attend_meeting, host_meeting
from jaxina.doctor.probes import Measured, Responder
from jaxina.errors import InvalidArgumentError


def register(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def doctor(
    nodes: Annotated[int, typer.Option(min=1, max=config.MAX_WORKERS, help="Number of hosts.")],
    node: Annotated[int, typer.Option(min=0, help="The number of this host, from 0.")],
    coordinator: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="An address of node 0 with a free port, the same on all hosts.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="On node 0: print JSON.")] = False,
) -> None:
    """Check a cluster: whether its hosts reach each other, and what to mend.

    Call it once on each host. Node 0 prints what is wrong: packets or
    connections that do not pass, packets that are too large for the way, small
    buffers, clocks that differ, other versions, two hosts with one name. Its
    exit code is 1 if jobs cannot run so.
    """
    settings = config.resolve()
    if node >= nodes:
        raise InvalidArgumentError(f"--node {node} is not below --nodes {nodes}: nodes count from 0")
    host_in("--coordinator", coordinator)
    patience = settings.join_timeout
    where = listening_address(coordinator, settings.interface) if node == 0 else coordinator
    address = own_host_towards(where, settings.interface)
    responder = at_free_port(settings.ports or (), address, lambda port: Responder(address, port))
    own = own_facts(node, address, responder.udp, responder.tcp)
    try:
        if node > 0:
            attend_meeting(coordinator, nodes, own, responder, settings.token, patience)
            return
        with listen(where) as listener:
            hosts, measured = host_meeting(listener, nodes, own, responder, settings.token, patience)
    finally:
        responder.stop()
    found = problems(hosts, measured)
    if as_json:
        print(json.dumps(_record(hosts, measured, found)))
    else:
        _print(hosts, measured, found)
    raise typer.Exit(1 if any(problem.stops for problem in found) else 0)


def _record(hosts: list[Facts], measured: dict[Pair, Measured], found: list[Problem]) -> dict[str, object]:
    ways = [{"from": source, "to": target, **dataclasses.asdict(way)} for (source, target), way in measured.items()]
    return {
        "hosts": [dataclasses.asdict(host) for host in hosts],
        "ways": ways,
        "problems": [dataclasses.asdict(problem) for problem in found],
    }


def _print(hosts: list[Facts], measured: dict[Pair, Measured], found: list[Problem]) -> None:
    console = Console(highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for column in ("from", "to", "TCP", "UDP", "latency", "MTU", "clock"):
        table.add_column(column, justify="right")
    for (source, target), way in sorted(measured.items()):
        table.add_row(
            str(source),
            str(target),
            "no" if way.tcp else "yes",
            "no" if way.latency_s is None else f"{1 - way.lost:.0%}",
            "-" if way.latency_s is None else f"{1e3 * way.latency_s:.2f} ms",
            str(way.mtu or "-"),
            "-" if way.ahead_s is None else f"{way.ahead_s:+.3f} s",
        )
    for host in hosts:
        console.print(f"{host}: MTU {host.mtu}, " + ", ".join(f"{name} {text}" for name, text in host.versions.items()))
    if measured:
        console.print(table)
    for problem in found:
        console.print(Text(f"{problem.code}: {problem.what}", style="red" if problem.stops else "yellow"))
        console.print(Text(f"  mend: {problem.mend}"))
    if not found:
        console.print(Text("nothing is wrong", style="green"))
