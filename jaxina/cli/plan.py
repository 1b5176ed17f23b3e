"""``jaxina plan``: how long an all-reduce would take in a ring, and through a switch that adds what passes."""

from __future__ import annotations

from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from jaxina.bench.ring_model import Machines, bytes_on_link
from jaxina.bench.sizes import parse_size, sweep


def register(app: typer.Typer) -> None:
    app.command("plan")(plan)


def plan(
    machines: Annotated[int, typer.Option("-n", "--machines", min=2, help="Number of machines.")],
    rate: Annotated[float, typer.Option(min=1, help="Megabits per second of a machine's link, each way.")] = 1000,
    devices: Annotated[int, typer.Option("-g", "--devices", min=1, help="Devices of each machine.")] = 1,
    inside: Annotated[
        float, typer.Option(min=1, help="Megabits per second of a device's link inside its machine, each way.")
    ] = 100_000,
    latency: Annotated[float, typer.Option(min=0, help="Microseconds that one step takes beside the bytes.")] = 50,
    mtu: Annotated[int, typer.Option(min=256, max=4096, help="Payload bytes of a packet.")] = 1024,
    begin: Annotated[str, typer.Option("-b", "--begin", help="Smallest size in bytes, such as 4K.")] = "64K",
    end: Annotated[str, typer.Option("-e", "--end", help="Largest size.")] = "64M",
    factor: Annotated[int, typer.Option("-f", "--factor", min=2, help="Each size is so many times the last one.")] = 4,
) -> None:
    """Say how long an all-reduce of float32 would take with aggregator='netreduce', from a model of the links.

    With several devices in a machine, "through a switch" is the paper's way: scattered and gathered inside machines,
    and summed between them. What jaxina does instead takes as long on the
    machines' links; see docs/netreduce.md.
    """
    made = Machines(machines, devices, rate * 1e6 / 8, inside * 1e6 / 8, latency / 1e6)
    table = Table(box=box.SIMPLE_HEAD, title=f"{machines} machines with links of {rate:g} Mbit/s: ms, by the model")
    for heading in ("bytes", "in a ring", "through a switch", "ratio"):
        table.add_column(heading, justify="right")
    for size in sweep(parse_size(begin), parse_size(end), factor):
        carried = bytes_on_link(size, mtu)
        ring, switch = 1e3 * made.ring_s(carried), 1e3 * made.switch_s(carried)
        table.add_row(f"{size:,}", f"{ring:.2f}", f"{switch:.2f}", f"{ring / switch:.2f}")
    Console().print(table)
