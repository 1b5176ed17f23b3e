"""``jaxina fabric``: training over unequal links. A scheduler, the server of the model and its replica."""

from __future__ import annotations

import json
import logging
import math
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from google.protobuf.json_format import MessageToDict
from rich import box
from rich.console import Console
from rich.table import Table

from jaxina.cli.common_options import announce, credentials, host_in, log_to_terminal
from jaxina.cli.output_files import check_output, writing
from jaxina.cli.signals import Signals
from jaxina.errors import InvalidArgumentError

if TYPE_CHECKING:
    from jaxina.fabric.model import Vector

_MEGABIT = 125_000  # bytes
_MOST_RATE = 1e6  # Mbit/s
_CALL = 5.0  # seconds

Scheduler = Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the scheduler listens.")]
TokenFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The scheduler's token is in FILE. If not given, it is JAXINA_TOKEN, if set."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Log warnings only.")]
Announce = Annotated[int | None, typer.Option(hidden=True)]
Frames = Annotated[
    str,
    typer.Option(metavar="HOST:PORT", help="Where updates are taken: an address of this host that all workers reach."),
]
_HERE = "127.0.0.1:51100"


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        no_args_is_help=True,
        help="Train over unequal links: a scheduler plans who sends which update when (MLfabric).",
    )
    for command in (scheduler, server, replica, status):
        group.command(command.__name__)(command)
    app.add_typer(group, name="fabric")


def scheduler(
    workers: Annotated[int, typer.Option("-n", "--workers", min=1, help="Number of workers that there is room for.")],
    bind: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen.")] = _HERE,
    rate: Annotated[
        float,
        typer.Option(
            min=0.001,
            max=_MOST_RATE,
            metavar="MBIT",
            help="Megabits per second of each host's link, each way, as long as no other is known.",
        ),
    ] = 1000,
    rates: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Read the links' rates from the file that `jaxina testbed shape` writes."),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Estimate the rates of workers' links from their transfers (TCP_INFO).")
    ] = False,
    delay_bound: Annotated[
        int,
        typer.Option(
            min=1, max=2**32 - 1, help="Between an update's version and its commit are fewer updates than this."
        ),
    ] = 30,
    aggregators: Annotated[
        int, typer.Option(min=0, help="How many workers add updates of others at once, at most.")
    ] = 2,
    learning_rate: Annotated[float, typer.Option(help="What the server multiplies its steps by.")] = 1.0,
    momentum: Annotated[float, typer.Option(help="Of the server's steps, at least 0 and below 1.")] = 0.0,
    nesterov: Annotated[bool, typer.Option("--nesterov", help="Make it Nesterov's momentum, as DiLoCo does.")] = False,
    compressor: Annotated[
        str, typer.Option(metavar="SPEC", help="Compressor of the updates; see docs/compressors.md.")
    ] = "none",
    divergence_bound: Annotated[
        float | None,
        typer.Option(help="Have a replica of the model, whose distance from the model is at most this."),
    ] = None,
    patience: Annotated[
        float,
        typer.Option(help="Seconds that an update may be late before it is sent another way, or given up."),
    ] = 10.0,
    seed: Annotated[int, typer.Option(help="Of the draw of aggregators.")] = 0,
    token_file: TokenFile = None,
    quiet: Quiet = False,
    announce_fd: Announce = None,
) -> None:
    """Plan the transfers of one job, until Ctrl-C or SIGTERM.

    The job begins when its server, and its replica if it has one, have joined.
    """
    from jaxina.fabric.model import Optimizer
    from jaxina.fabric.monitor import RatesFile
    from jaxina.fabric.service.daemon import SchedulerDaemon
    from jaxina.fabric.service.settings import JobSettings

    host_in("--bind", bind)
    if math.isnan(rate):  # older versions of typer let it pass
        raise InvalidArgumentError("--rate nan: give a number of megabits per second")
    if measure and rates is not None:
        raise InvalidArgumentError("--rates and --measure are two ways to know the links: choose one")
    settings = JobSettings(
        workers=workers,
        rate=round(rate * _MEGABIT),
        delay_bound=delay_bound,
        groups=aggregators,
        optimizer=Optimizer(learning_rate, momentum, nesterov),
        compressor=compressor,
        divergence_bound=divergence_bound,
        patience=patience,
        seed=seed,
    )
    token, tls = credentials(token_file)
    log_to_terminal(quiet)
    file = None if rates is None else RatesFile(rates)
    with (
        Signals((signal.SIGINT, signal.SIGTERM)) as signals,
        SchedulerDaemon(settings, bind, token, tls, file, measure) as daemon,
    ):
        daemon.ended.add_done_callback(lambda _: signals.send(signal.SIGTERM))
        announce(announce_fd, daemon.address)
        logging.getLogger("jaxina.fabric").info("scheduling for %d workers at %s", workers, daemon.address)
        signals.wait()
    daemon.ended.result()


def server(
    model: Annotated[Path, typer.Option(metavar="FILE.npy", help="The model at the beginning: a float32 vector.")],
    scheduler: Scheduler = _HERE,
    bind: Frames = "127.0.0.1:0",
    log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write each commit to FILE, which must not exist. It grows with each update."
        ),
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE.npy", help="Write the model there at the end.")] = None,
    token_file: TokenFile = None,
    quiet: Quiet = False,
) -> None:
    """Have the model, and commit updates to it, until Ctrl-C, SIGTERM or the end of the job."""
    import numpy as np

    try:
        with model.open("rb") as file:
            weights = np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"--model {model}: {error}") from None
    if weights.ndim != 1 or weights.dtype != np.float32 or not len(weights):
        raise InvalidArgumentError(f"--model {model}: it must be a float32 vector")
    _serve(weights, scheduler, bind, log, save, token_file, quiet)


def replica(
    scheduler: Scheduler = _HERE,
    bind: Frames = "127.0.0.1:0",
    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Once it serves, write each commit to FILE, which must not exist."),
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE.npy", help="Write the model there at the end.")] = None,
    token_file: TokenFile = None,
    quiet: Quiet = False,
) -> None:
    """Follow the server, and take its place when it dies, until Ctrl-C, SIGTERM or the end of the job."""
    _serve(None, scheduler, bind, log, save, token_file, quiet)


def _serve(
    weights: Vector | None,
    scheduler: str,
    bind: str,
    log: Path | None,
    save: Path | None,
    token_file: Path | None,
    quiet: bool,
) -> None:
    import numpy as np

    from jaxina.fabric.service.model_server import ModelServer

    host_in("--scheduler", scheduler)
    host_in("--bind", bind)
    check_output("--save", save)
    token, tls = credentials(token_file)
    log_to_terminal(quiet)
    with (
        Signals((signal.SIGINT, signal.SIGTERM)) as signals,
        ModelServer(scheduler, bind, weights, log, token, tls, ended=lambda: signals.send(signal.SIGTERM)) as served,
    ):
        logging.getLogger("jaxina.fabric").info("taking updates at %s", served.address)
        signals.wait()
        if save is not None:
            with writing("--save", save):
                np.save(save, served.model()[0])
        if served.error is not None:
            raise served.error


def status(
    scheduler: Scheduler = _HERE,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    token_file: TokenFile = None,
) -> None:
    """Show a job: who is there, what the links have, and what became of updates."""
    from jaxina.fabric.service.session import ask_status

    host_in("--scheduler", scheduler)
    reply = ask_status(scheduler, _CALL, *credentials(token_file))
    if as_json:
        print(json.dumps(MessageToDict(reply, always_print_fields_with_no_presence=True)))
        return
    title = f"scheduler {scheduler}, up {reply.uptime_s:.0f} s"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("host", "address", "Mbit/s\nout, in", "committed", "dropped"):
        table.add_column(column, justify="left" if column in ("host", "address") else "right")
    for host in reply.hosts:
        mark = " (serves)" if host.name == reply.serving and host.address else ""
        rates = f"{host.out_per_s / _MEGABIT:g}, {host.in_per_s / _MEGABIT:g}"
        table.add_row(host.name + mark, host.address or "not there", rates, f"{host.committed:,}", f"{host.dropped:,}")
    console = Console()
    console.print(table)
    console.print(
        f"{reply.decided:,} of {reply.planned:,} turns are decided, {reply.lost:,} of them lost; {reply.waiting:,} "
        f"updates wait for a plan\n{reply.added:,} updates were added on their way; greatest delay "
        f"{reply.greatest_delay}, below {reply.delay_bound}",
        highlight=False,
    )
