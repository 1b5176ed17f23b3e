"""`jaxina run`: starts a program on several worker processes, as mpirun does."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from jaxina import config, trace_file
from jaxina.cli import placement, worker_memory
from jaxina.cli.launcher import Launcher, Outcome, free_port
from jaxina.cli.private_switch import private_switch
from jaxina.cli.tagged_output import TaggedOutput
from jaxina.errors import InvalidArgumentError, SystemCallError


def register(app: typer.Typer) -> None:
    app.command("run", context_settings={"allow_interspersed_args": False})(run)


def run(
    program: Annotated[
        list[str],
        typer.Argument(
            metavar="SCRIPT [ARGS]...",
            help="A Python file, a module (with -m), or a program; and its arguments.",
        ),
    ],
    count: Annotated[
        int,
        typer.Option(
            "-n", "--workers", min=1, max=config.MAX_WORKERS, help="Number of worker processes."
        ),
    ],
    aggregator: Annotated[str | None, typer.Option(help="embedded, udp, roce or verbs.")] = None,
    devices: Annotated[
        int | None,
        typer.Option("--devices-per-process", min=1, max=256, help="CPU devices per process."),
    ] = None,
    loss: Annotated[
        float | None,
        typer.Option(help="Share of packets to drop on each link, for experiments (udp)."),
    ] = None,
    switch: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="A running switch (udp); left out, the run starts its own."
        ),
    ] = None,
    catch_all: Annotated[
        bool,
        typer.Option(
            "--catch-all",
            help="Carry all of XLA's all-reduces, also those that the partitioner puts in "
            "(jit with shardings, no shard_map). One device per process.",
        ),
    ] = False,
    module: Annotated[
        bool, typer.Option("-m", help="SCRIPT is a module's name, as for python -m.")
    ] = False,
    stats: Annotated[
        bool, typer.Option("--stats", help="Print packets and retransmissions at the end.")
    ] = False,
    stats_json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write each process's statistics to FILE.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Write a timeline for ui.perfetto.dev to FILE."),
    ] = None,
) -> None:
    """Run a program on several worker processes of this host.

    Each process gets JAXINA_RANK and its kin; jaxina.init() in the program then finds the others.
    Every line of output is tagged with its worker. Ctrl-C ends all; so does the first worker that
    fails.
    """
    command = command_of(program, module)
    settings = config.resolve(aggregator=aggregator, switch=switch, loss=loss)
    config.check_used(settings)
    for option, path in (("--stats-json", stats_json), ("--trace", trace)):
        if path is not None and not path.resolve().parent.is_dir():
            raise InvalidArgumentError(f"{option} {path}: there is no folder {path.resolve().parent}")
    if catch_all and devices not in (None, 1):
        raise InvalidArgumentError("--catch-all needs one device per process")
    with tempfile.TemporaryDirectory(prefix="jaxina-run-") as folder:
        outcome = launch(
            command,
            count,
            settings,
            own_switch=settings.origins["switch"] == "default",
            devices=devices,
            catch_all=catch_all,
            stats_folder=Path(folder),
            trace=trace,
        )
        collected = _collect(Path(folder))
    if stats_json is not None:
        stats_json.write_text(json.dumps(collected, indent=2) + "\n")
    report(outcome)
    if stats:
        _print_statistics(collected)
    raise typer.Exit(outcome.code)


def command_of(program: Sequence[str], module: bool) -> list[str]:
    """The command line that runs `program`.

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
        raise InvalidArgumentError(
            f"{name!r} is neither a file here nor a program on PATH (a module needs -m)"
        )
    return [found, *program[1:]]


def launch(
    command: Sequence[str],
    count: int,
    settings: config.Configuration,
    *,
    own_switch: bool,
    devices: int | None = None,
    catch_all: bool = False,
    stats_folder: Path | None = None,
    trace: Path | None = None,
) -> Outcome:
    """Runs `command` on `count` processes with these settings, with a switch of its own if that is
    asked for.
    """
    where = placement.current.get()
    where.check(count, settings.aggregator)
    coordinator = f"{where.first_host}:{free_port()}"
    with _switch(settings, count, own_switch) as switch, _traced(trace, count) as trace_part:

        def environment(rank: int) -> dict[str, str]:
            variables = {
                "JAXINA_COORDINATOR": coordinator,
                "JAXINA_RANK": str(rank),
                "JAXINA_PROCESSES": str(count),
                "JAXINA_AGGREGATOR": settings.aggregator,
                "JAXINA_LOSS": str(settings.loss),
                "JAXINA_LOG": settings.log if rank or settings.origins["log"] != "default" else "info",
                "PYTHONUNBUFFERED": "1",
                # JAX's notifier of preemptions swallows SIGTERM, so that a worker told to end would not.
                "JAX_ENABLE_PREEMPTION_SERVICE": os.environ.get("JAX_ENABLE_PREEMPTION_SERVICE", "0"),
            }
            if settings.keep_memory == "yes":
                variables.update(worker_memory.keeping(os.environ))
            if switch is not None:
                variables["JAXINA_SWITCH"] = switch
            if devices is not None:
                variables["JAX_NUM_CPU_DEVICES"] = str(devices)
            if catch_all:
                variables.update(_catch_all())
            if stats_folder is not None:
                variables["JAXINA_STATS_FILE"] = str(stats_folder / f"{rank}.json")
            if trace_part is not None:
                variables["JAXINA_TRACE"] = str(trace_part)
            return variables

        return Launcher(
            lambda rank: where.on_worker(rank, list(command)), count, environment, TaggedOutput()
        ).run()


def _catch_all() -> dict[str, str]:
    """What makes XLA:CPU take jaxina for its MPI library (xla_ffi/mpi)."""
    from jaxina import _native

    return {
        "MPITRAMPOLINE_LIB": _native.__file__,
        "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "mpi",
        # XLA makes MPI's communicators in the main thread only.
        "JAX_CPU_ENABLE_ASYNC_DISPATCH": "0",
        "JAX_NUM_CPU_DEVICES": "1",
    }


@contextlib.contextmanager
def _switch(settings: config.Configuration, workers: int, own: bool) -> Iterator[str | None]:
    if settings.aggregator == "embedded":
        yield None
    elif own:
        # More threads than a loopback host can feed only compete with the workers.
        threads = 1 if (os.cpu_count() or 1) < 2 * workers else 2
        rdma = settings.aggregator != "udp"
        with private_switch(settings.loss, settings.loss_seed, threads, rdma) as address:
            yield address
    else:
        yield settings.switch


@contextlib.contextmanager
def _traced(trace: Path | None, count: int) -> Iterator[Path | None]:
    """Where the processes write their timelines, which become the file `trace` at the end."""
    if trace is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="jaxina-trace-") as folder:
        part = Path(folder) / "trace.json"
        yield part
        parts = [trace_file.of_process(part, rank, count) for rank in range(count)]
        try:
            found = trace_file.merge(parts, trace)
        except OSError as error:
            raise SystemCallError(f"cannot write {trace} (--trace): {error.strerror}") from error
    text = f"{found} of {count} workers in {trace}; https://ui.perfetto.dev opens it"
    Console(stderr=True, highlight=False).print(f"jaxina: {text}", markup=False, soft_wrap=True)


def report(outcome: Outcome) -> None:
    """Says on stderr why a run failed."""
    if not outcome.reason:
        return
    console = Console(stderr=True, highlight=False)
    for line in outcome.last_lines:
        console.print("  │ ", line, style="dim", markup=False, sep="", soft_wrap=True)
    console.print(f"jaxina run: {outcome.reason}", style="bold red", markup=False, soft_wrap=True)


def _collect(folder: Path) -> dict[str, Any]:
    """What the processes wrote at their shutdown; a process that died wrote nothing."""
    workers = [
        json.loads(path.read_text())
        for path in sorted(folder.glob("*.json"), key=lambda path: int(path.stem))
    ]
    names = [
        name for name in (workers[0] if workers else {}) if name not in ("process", "aggregator")
    ]
    return {
        "workers": workers,
        "total": {name: sum(worker[name] for worker in workers) for name in names},
    }


def _print_statistics(collected: dict[str, Any]) -> None:
    total = collected["total"]
    if not total:
        text = "no statistics: no process reached jaxina.shutdown() or its orderly end"
    else:
        sent = total["packets_sent"]
        share = f" ({100 * total['retransmissions'] / sent:.2f} %)" if sent else ""
        text = (
            f"{len(collected['workers'])} workers, {total['collectives']} collectives: {sent} "
            "packets sent, "
            f"{total['packets_received']} received, {total['retransmissions']} "
            f"retransmissions{share}, "
            f"{total['packets_dropped']} dropped, {total['packets_rejected']} rejected"
        )
    Console(stderr=True, highlight=False).print(f"jaxina run: {text}", markup=False, soft_wrap=True)
