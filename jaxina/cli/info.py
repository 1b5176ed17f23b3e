"""``jaxina info``: shows versions, what this machine can do, and every setting with the origin of its value."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import jaxina
from jaxina import config
from jaxina._report import Report
from jaxina.control import last_run


def register(app: typer.Typer) -> None:
    app.command("info")(info)


def info(
    last: Annotated[
        bool,
        typer.Option("--last", help="Show this user's last run instead: its statistics and its report."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show versions, transports and settings."""
    console = Console(highlight=False)
    if as_json:
        print(json.dumps(last_run.read() if last else {"facts": _facts(), "settings": _settings()}, indent=2))
    elif last:
        _print_last(console)
    else:
        facts = Table(show_header=False, box=None)
        for name, value in _facts().items():
            facts.add_row(name, value)
        console.print(facts)
        console.print(_table(_settings()))


def _facts() -> dict[str, str]:
    import jax
    import jaxlib

    from jaxina import _native, _public  # noqa: F401 (it loads the part for GPUs, and warns of an unexpected JAX)
    from jaxina._jax_compat import versions

    tested = "tested" if versions.is_tested() else f"not tested; tested are {', '.join(versions.TESTED)}"
    gpu = _native.gpu_facts()
    return {
        "jaxina": jaxina.__version__,
        "jax, jaxlib": f"{jax.__version__}, {jaxlib.__version__} ({tested})",
        "codec": _native.numerics.codec_name(),
        "aggregators": ", ".join(config.AGGREGATORS),
        "encryption": _native.encryption_availability(),
        "verbs": _native.verbs_availability(),
        "GPUs": gpu["gpus"],
        "CUDA": gpu["toolkit"],
        "dma-buf": gpu["dma_buf"],
    }


def _settings() -> list[dict[str, str]]:
    """Describes every setting: its variable, value and so on. Secret values are not shown."""
    from jaxina import _gpu

    resolved = config.resolve(on_gpu=_gpu.is_used())
    return [
        {
            "variable": config.variable(field.name),
            "value": config.shown(field, getattr(resolved, field.name)),
            "origin": resolved.origins[field.name],
            "default": config.default_text(field),
            "allowed": field.metadata["kind"].allowed,
            "meaning": field.metadata["doc"],
        }
        for field in config.fields()
    ]


def _table(settings: list[dict[str, str]]) -> Table:
    table = Table(title="settings", title_justify="left")
    for column in settings[0]:
        table.add_column(column, overflow="fold")
    for one in settings:
        table.add_row(*one.values())
    return table


def _print_last(console: Console) -> None:
    record = last_run.read()
    if record is None:
        console.print(f"no run has been recorded ({last_run.path()})")
        return
    console.print(
        f"last run: {record['when']}, {record['aggregator']}, {record['processes']} processes. Statistics of process 0:"
    )
    console.print(json.dumps(record["statistics"], indent=2))
    console.print(str(Report.of_records(record["programs"])), markup=False)
