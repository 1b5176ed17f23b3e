"""`jaxina info`: versions, what this machine can do, and every setting with its origin."""

from __future__ import annotations

import importlib.metadata
import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from jaxina import config
from jaxina.control import last_run


def register(app: typer.Typer) -> None:
    app.command("info")(info)


def info(
    last: Annotated[
        bool,
        typer.Option("--last", help="Show what this user's last run summed and what fell back."),
    ] = False,
) -> None:
    """Show versions, transports and settings."""
    console = Console(highlight=False)
    if last:
        _print_last(console)
    else:
        console.print(_facts())
        console.print(_settings())


def _facts() -> Table:
    import jax
    import jaxlib

    from jaxina import _jax_compat, _native

    tested = any(jax.__version__.startswith(f"{version}.") for version in _jax_compat.TESTED)
    table = Table(show_header=False, box=None)
    table.add_row("jaxina", importlib.metadata.version("jaxina"))
    table.add_row(
        "jax, jaxlib",
        f"{jax.__version__}, {jaxlib.__version__} "
        f"({'tested' if tested else 'not tested; tested are ' + ', '.join(_jax_compat.TESTED)})",
    )
    table.add_row("codec", _native.numerics.codec_name())
    table.add_row("aggregators", "embedded, udp, roce, verbs")
    table.add_row("verbs", _native.verbs_availability())
    gpu = _native.gpu_facts()
    table.add_row("GPUs", gpu["gpus"])
    table.add_row("CUDA", gpu["toolkit"])
    table.add_row("dma-buf", gpu["dma_buf"])
    return table


def _settings() -> Table:
    resolved = config.resolve()
    table = Table(title="settings", title_justify="left")
    for column in ("variable", "value", "origin", "default", "allowed", "meaning"):
        table.add_column(column, overflow="fold")
    for field in config.fields():
        table.add_row(
            config.variable(field.name),
            config.shown(field, getattr(resolved, field.name)),
            resolved.origins[field.name],
            config.default_text(field),
            field.metadata["kind"].allowed,
            field.metadata["doc"],
        )
    return table


def _print_last(console: Console) -> None:
    record = last_run.read()
    if record is None:
        console.print(f"no run has been recorded ({last_run.path()})")
        return
    console.print(
        f"last run: {record['when']}, {record['aggregator']}, {record['processes']} processes; of "
        "process 0:"
    )
    console.print(json.dumps(record["statistics"], indent=2))
    if not record["fallbacks"]:
        console.print("every psum that was traced with jaxina switched on was carried")
    for reason, count in record["fallbacks"].items():
        console.print(f"{count} psums stayed with XLA's own collective: {reason}", markup=False)
