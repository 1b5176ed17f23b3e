"""``jaxina testbed``: runs workers and a switch on links with a given rate and loss, all on this host."""

from __future__ import annotations

import math
import time
from typing import Annotated

import typer
from rich.console import Console

from jaxina import testbed
from jaxina.cli import placement
from jaxina.testbed.schedule import EVERY, draws

KBIT = 125  # bytes


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        no_args_is_help=True, help="Run workers and a switch on shaped links between namespaces of this host."
    )
    group.command("up")(up)
    group.command("run", context_settings={"ignore_unknown_options": True, "help_option_names": []})(run)
    group.command("shape")(shape)
    group.command("down")(down)
    app.add_typer(group, name="testbed")
    run.app = app  # type: ignore[attr-defined]


def up(
    workers: Annotated[int, typer.Option("-n", "--workers", min=1, max=testbed.MAX_WORKERS, help="Number of workers.")],
    rate: Annotated[int, typer.Option(help="Megabits per second of a worker's link, each way.")] = 1000,
    loss: Annotated[float, typer.Option(help="Share of packets that each link loses, each way, such as 0.001.")] = 0.0,
    mtu: Annotated[int, typer.Option(help="Largest IP packet, in bytes.")] = 1500,
    racks: Annotated[
        int, typer.Option(metavar="R", help="Number of racks that the workers are in, each with a switch.")
    ] = 1,
    oversubscription: Annotated[
        float,
        typer.Option(
            metavar="K", help="Rate of all workers' links of a rack, divided by that of its link to the core."
        ),
    ] = 1.0,
    servers: Annotated[
        int, typer.Option(metavar="S", help="Number of hosts for servers, at the core if there are racks.")
    ] = 0,
) -> None:
    """Make a namespace for each worker, server and switch, and shaped links between them. Needs root."""
    made = testbed.up(testbed.Size(workers, racks, oversubscription, servers), testbed.Link(rate, loss, mtu))
    told = (
        f"{workers} workers ({made.worker_host(0)} ...) on links of {rate} Mbit/s, and a switch "
        f"({made.switch_host}) on one of {workers * rate}; loss {100 * loss:g} %, MTU {mtu}"
    )
    if racks > 1:
        told += f"\n{racks} racks with a switch ({made.rack_switch_host(0)} ...), {made.core_rate} Mbit/s to the core"
    if servers > 0:
        told += f"\n{servers} hosts for servers ({made.server_host(0)} ...)"
    Console(highlight=False).print(told)


def run(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="A jaxina command: run or bench, with its options.")
    ],
) -> None:
    """Run `jaxina COMMAND` with its workers and its switch in the testbed, for example:

    jaxina testbed run bench -n 4 --aggregator udp --vs gloo
    """
    placement.current.set(placement.Placement(testbed.find()))
    code = typer.main.get_command(run.app)(command, prog_name="jaxina", standalone_mode=False)  # type: ignore[attr-defined]
    raise typer.Exit(code or 0)


def shape(
    schedule: Annotated[
        str, typer.Option(help="How likely which rates are: N1, N2 or N3, as in MLfabric's evaluation.")
    ] = "N2",
    seed: Annotated[int, typer.Option(help="The same one gives the same rates.")] = 0,
    every: Annotated[float, typer.Option(min=0.2, metavar="S", help="Seconds from one change to the next.")] = EVERY,
    seconds: Annotated[
        float | None, typer.Option(min=0, metavar="S", help="For how long. If not given, until Ctrl-C.")
    ] = None,
) -> None:
    """Change the rates of the workers' links while programs run. At the end all links have their full rate again.

    `jaxina fabric scheduler --rates /run/jaxina-testbed-rates.jsonl` learns of each change.
    """
    from jaxina.fabric.monitor import Rates, written
    from jaxina.fabric.service.settings import worker_host

    made = testbed.find()
    names = [worker_host(rank) for rank in range(made.size.workers)]
    full = dict.fromkeys(names, (1000 * made.link.rate, 1000 * made.link.rate))
    console = Console(highlight=False)
    testbed.RATES.write_text("")

    def apply(rates: Rates) -> None:
        testbed.reshape(made, {rank: rates[name] for rank, name in enumerate(names)})
        with testbed.RATES.open("a") as file:
            file.write(written(time.time(), {name: (out * KBIT, into * KBIT) for name, (out, into) in rates.items()}))

    drawn = draws(schedule, seed, names, 1000 * made.link.rate)
    end = math.inf if seconds is None else time.monotonic() + seconds
    try:
        while (left := end - time.monotonic()) > 0:
            rates = next(drawn)
            apply(rates)
            console.print(
                " ".join(f"{out / 1000:g}/{into / 1000:g}" for out, into in rates.values()) + " Mbit/s out/in"
            )
            time.sleep(min(every, left))
    except KeyboardInterrupt:
        pass
    finally:
        apply(full)


def down() -> None:
    """Remove the testbed and kill what runs in it. Nothing else is touched."""
    testbed.down()
