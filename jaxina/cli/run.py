"""``jaxina run``: starts a program in several worker processes, as mpirun does."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from jaxina import config
from jaxina.cli import run_report
from jaxina.cli.common_options import host_in
from jaxina.cli.launch import Launch, Nodes
from jaxina.cli.output_files import check_output, writing
from jaxina.errors import InvalidArgumentError


def register(app: typer.Typer) -> None:
    app.command("run", context_settings={"allow_interspersed_args": False})(run)


def run(
    program: Annotated[
        list[str],
        typer.Argument(
            metavar="SCRIPT [ARGS]...",
            help="A Python file, a module (with -m) or a program, and its arguments.",
        ),
    ],
    count: Annotated[
        int,
        typer.Option("-n", "--workers", min=1, max=config.MAX_WORKERS, help="Number of worker processes."),
    ],
    aggregator: Annotated[str | None, typer.Option(help=f"One of {', '.join(config.AGGREGATORS)}.")] = None,
    devices: Annotated[
        int | None,
        typer.Option("--devices-per-process", min=1, max=256, help="CPU devices per process."),
    ] = None,
    loss: Annotated[
        float | None,
        typer.Option(help="Share of arriving packets to drop, for experiments (direct, atp, udp, roce, netreduce)."),
    ] = None,
    switch: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Use this switch (atp, udp, roce, verbs, netreduce). If not given, the run starts one; netreduce does "
            "without.",
        ),
    ] = None,
    racks: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="R",
            help="Start a switch for each of R racks of workers, and a core switch above them, to try it (atp).",
        ),
    ] = 1,
    catch_all: Annotated[
        bool | None,
        typer.Option(
            "--catch-all/--no-catch-all",
            help="Whether jaxina also takes XLA's own collectives, such as those of jit with shardings (default: yes, "
            "on CPU with one device per worker).",
            show_default=False,
        ),
    ] = None,
    module: Annotated[bool, typer.Option("-m", help="SCRIPT is the name of a module, as for python -m.")] = False,
    max_restarts: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="If a worker fails, start all workers again, at most N times."),
    ] = 0,
    grace: Annotated[
        float,
        typer.Option(min=0, max=86400, help="Seconds that the other workers have to end after one has failed."),
    ] = 2.0,
    nodes: Annotated[
        int, typer.Option(min=1, max=config.MAX_WORKERS, help="Number of hosts. Call `jaxina run` on each.")
    ] = 1,
    node: Annotated[int, typer.Option(min=0, help="The number of this host, from 0.")] = 0,
    coordinator: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="With several hosts: an address of node 0 with a free port."),
    ] = None,
    log_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write each worker's output to DIR/RANK.log.")
    ] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Print packets and retransmissions at the end.")] = False,
    stats_json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write each process's statistics to FILE.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Write a timeline for ui.perfetto.dev to FILE."),
    ] = None,
) -> None:
    """Run a program in several worker processes, on this host or on several hosts.

    Each process gets the JAXINA_* variables by which jaxina.init() in the
    program finds the others. Every line of output is tagged with its worker.
    Worker 0 has the terminal's input. Ctrl-C reaches all workers. If a worker
    fails, the run ends, or all workers are started again (--max-restarts).
    """
    command = command_of(program, module)
    wanted = None if catch_all is None else "yes" if catch_all else "no"
    settings = config.resolve(aggregator=aggregator, switch=switch, loss=loss, catch_all=wanted)
    own_switch = settings.origins["switch"] == "default"
    config.check_used(settings)
    if racks > 1:
        _check_racks(racks, count, settings, own_switch)
    check_output("--stats-json", stats_json)
    check_output("--trace", trace)
    if coordinator is not None:
        host_in("--coordinator", coordinator)
    if nodes > 1 and (settings.aggregator == "embedded" or (settings.uses_switch and own_switch)):
        raise InvalidArgumentError(
            "several nodes need --aggregator direct, or a switch that all of them reach, for example --aggregator udp "
            "--switch HOST:PORT"
        )
    launch = Launch(
        command,
        count,
        settings,
        own_switch,
        racks,
        nodes=Nodes(nodes, node, coordinator),
        devices=devices,
        trace=trace,
        log_folder=log_dir,
        grace=grace,
    )
    for attempt in range(1 + max_restarts):
        outcome, collected = launch.run(attempt)
        run_report.report(outcome)
        if outcome.code == 0 or outcome.interrupted or attempt == max_restarts:
            break
        run_report.say(f"starting all workers again, restart {attempt + 1} of {max_restarts}", style="yellow")
    if outcome.code == 0 and not collected["workers"]:
        run_report.say("no worker called jaxina.init(), so jaxina summed nothing", style="yellow")
    if stats_json is not None:
        with writing("--stats-json", stats_json):
            stats_json.write_text(json.dumps(collected, indent=2) + "\n")
    if stats:
        run_report.say(run_report.statistics(collected))
    raise typer.Exit(outcome.code)


def _check_racks(racks: int, workers: int, settings: config.Configuration, own_switch: bool) -> None:
    if settings.aggregator != "atp" or not own_switch:
        raise InvalidArgumentError(
            f"--racks {racks} starts switches that combine, so it needs --aggregator atp and no --switch. For switches "
            "that run already, give the workers of each rack its own JAXINA_SWITCH"
        )
    if racks > workers:
        raise InvalidArgumentError(f"{workers} workers cannot be in {racks} racks: give at most --racks {workers}")


def command_of(program: Sequence[str], module: bool) -> list[str]:
    """Makes the command line that runs a program.

    Args:
      program: a Python file, a module or a program, and its arguments.
      module: whether it is a module.

    Raises:
      InvalidArgumentError: there is no such file or program.
    """
    name = program[0]
    if module:
        return [sys.executable, "-m", *program]
    if os.path.isfile(name) and (name.endswith(".py") or not os.access(name, os.X_OK)):
        return [sys.executable, *program]
    found = shutil.which(name)
    if found is None:
        raise InvalidArgumentError(f"{name!r} is neither a file here nor a program on PATH (a module needs -m)")
    return [found, *program[1:]]
