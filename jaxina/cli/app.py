"""The entry of the ``jaxina`` command: its subcommands, and how errors are shown."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
from rich.console import Console

import jaxina
from jaxina.cli import (
    bench,
    certify,
    coordinator,
    doctor,
    fabric,
    info,
    keeper,
    plan,
    run,
    sim,
    status,
    switch,
    testbed,
)
from jaxina.errors import InvalidArgumentError, JaxinaError, SystemCallError

app = typer.Typer(
    name="jaxina",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Sums JAX arrays across workers in the network.",
)
run.register(app)
switch.register(app)
coordinator.register(app)
keeper.register(app)
status.register(app)
doctor.register(app)
bench.register(app)
certify.register(app)
sim.register(app)
plan.register(app)
testbed.register(app)
fabric.register(app)
info.register(app)


def _version(asked: bool) -> None:
    if asked:
        print(f"jaxina {jaxina.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    _state["debug"] = debug


_state = {"debug": False}


def main() -> None:
    """Runs the command line.

    A jaxina error is shown as one line. The exit code is then 2 for an InvalidArgumentError, and 1 for all others. So
    is a failure with a file, which the system names. Any other exception is a defect, and has its traceback.
    """
    _open_what_is_closed()
    try:
        app()
    except JaxinaError as error:
        if _state["debug"]:
            raise
        _show(error)
        sys.exit(2 if isinstance(error, InvalidArgumentError) else 1)
    except OSError as error:
        if _state["debug"] or error.filename is None:
            raise
        _show(SystemCallError(f"{error.filename}: {error.strerror}"))
        sys.exit(1)


def _open_what_is_closed() -> None:
    """Opens /dev/null for each standard stream that is closed. Else the next socket would have its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(nowhere, True)
            setattr(sys, name, open(nowhere, mode))  # noqa: SIM115


def _show(error: JaxinaError) -> None:
    Console(stderr=True, highlight=False).print(f"[bold red]jaxina: {error.code}:[/] ", end="")
    print(error.message, file=sys.stderr)
