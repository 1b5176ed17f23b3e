"""``jaxina info``: shows versions, what this machine can do, and every setting with the origin of its value.

``jaxina info SETTING`` says what a setting means and what it may be.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import jaxina
from jaxina import config
from jaxina._report import Report
from jaxina.control import last_run
from jaxina.errors import InvalidArgumentError


def register(app: typer.Typer) -> None:
    app.command("info")(info)


def info(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="SETTING", help="Explain these settings, such as `slots` or `JAXINA_SLOTS`."),
    ] = None,
    last: Annotated[
        bool,
        typer.Option("--last", help="Show this user's last run instead: its statistics and its report."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show versions, transports and settings."""
    if names and last:
        raise InvalidArgumentError("--last shows a run: give no setting beside it")
    console = Console(highlight=False)
    if last:
        if as_json:
            print(json.dumps(last_run.read(), indent=2))
        else:
            _print_last(console)
        return
    settings = _named(names or [], _settings())
    if as_json:
        print(json.dumps({"facts": _facts(), "settings": settings}, indent=2))
    elif names:
        for one in settings:
            console.print(_details(one))
    else:
        facts = Table(show_header=False, box=None)
        for name, value in _facts().items():
            facts.add_row(name, value)
        console.print(facts)
        console.print(_table(settings))
        console.print("`jaxina info SETTING` says what a setting means and what it may be.", markup=False)


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


def _named(names: list[str], settings: list[dict[str, str]]) -> list[dict[str, str]]:
    """Returns the settings of these names, in this order. No names mean all settings."""
    by_variable = {one["variable"]: one for one in settings}
    unknown = [name for name in names if _variable_of(name) not in by_variable]
    if unknown:
        raise config.not_a_setting(unknown[0])
    return [by_variable[_variable_of(name)] for name in names] or settings


def _variable_of(name: str) -> str:
    """A setting may be written as in the environment or as an argument of `jaxina.init`."""
    return config.variable(name.lower().removeprefix("jaxina_"))


def _table(settings: list[dict[str, str]]) -> Table:
    table = Table(title="settings", title_justify="left")
    for column in ("variable", "value", "origin"):
        table.add_column(column, overflow="fold")
    for one in settings:
        is_default = one["origin"] == "default"
        value = Text(one["value"])
        table.add_row(one["variable"], value, one["origin"], style=None if is_default else "bold")
    return table


def _details(one: dict[str, str]) -> Table:
    table = Table(title=one["variable"], title_justify="left", show_header=False, box=None)
    for name in ("value", "origin", "default", "allowed", "meaning"):
        table.add_row(name, Text(one[name]))
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
