"""``jaxina bench``: times all-reduces. Its options and its table follow nccl-tests."""

from __future__ import annotations

import enum
import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from jaxina import config
from jaxina.bench import report
from jaxina.bench.dtypes import DTYPES, most_ranks
from jaxina.bench.sizes import parse_size, sweep
from jaxina.cli import run_report
from jaxina.cli.launch import Launch
from jaxina.cli.output_files import check_output, writing
from jaxina.errors import InvalidArgumentError

Dtype = enum.StrEnum("Dtype", {name.upper(): name for name in DTYPES})  # type: ignore[misc]
_FIRST_DTYPE = Dtype(DTYPES[0])


Rounding = enum.StrEnum("Rounding", {name.upper(): name for name in config.ROUNDINGS})  # type: ignore[misc]


_FIRST_ROUNDING = Rounding(config.ROUNDINGS[0])


class Versus(enum.StrEnum):
    GLOO = "gloo"
    NONE = "none"


def register(app: typer.Typer) -> None:
    app.command("bench")(bench)


def bench(
    count: Annotated[
        int,
        typer.Option("-n", "--workers", min=2, max=config.MAX_WORKERS, help="Worker processes."),
    ],
    begin: Annotated[str, typer.Option("-b", help="Smallest size in bytes (K, M, G).")] = "4K",
    end: Annotated[str, typer.Option("-e", help="Largest size.")] = "100M",
    factor: Annotated[float, typer.Option("-f", help="Factor from one size to the next.")] = 5.0,
    iterations: Annotated[
        int | None,
        typer.Option("-i", min=1, help="Timed calls per size. If not given, as many as fit into 4 s, from 20 to 200."),
    ] = None,
    warmup: Annotated[int, typer.Option("-w", min=1, help="Calls before these, which are not timed.")] = 5,
    dtype: Annotated[Dtype, typer.Option(help="Type of the elements.")] = _FIRST_DTYPE,
    bits: Annotated[
        list[int] | None,
        typer.Option(help="Bits of a word: 8, 16, 32 or 64. If given several times, all are timed in the same run."),
    ] = None,
    rounding: Annotated[Rounding, typer.Option(help="How words of 8 and 16 bits are rounded.")] = _FIRST_ROUNDING,
    aggregator: Annotated[str | None, typer.Option(help=f"One of {', '.join(config.AGGREGATORS)}.")] = None,
    switch: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Use this switch (atp, udp, roce, verbs, netreduce). If not given, start one; netreduce does without.",
        ),
    ] = None,
    loss: Annotated[
        float | None, typer.Option(help="Share of arriving packets to drop (direct, atp, udp, roce, netreduce).")
    ] = None,
    versus: Annotated[
        Versus, typer.Option("--vs", help="What to compare with: XLA's own collective (gloo), or nothing.")
    ] = Versus.NONE,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the figures to FILE.")] = None,
    plot_file: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.png", help="Draw a plot of time over size.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Write a timeline for ui.perfetto.dev to FILE."),
    ] = None,
) -> None:
    """Time an all-reduce over -n workers, one device each, and check every element."""
    sizes = sweep(parse_size(begin), parse_size(end), factor)
    settings = config.resolve(aggregator=aggregator, switch=switch, loss=loss)
    config.check_used(settings)
    check_output("--json", json_file)
    check_output("--plot", plot_file)
    check_output("--trace", trace)
    for width in bits or []:
        if width not in config.BITS:
            raise InvalidArgumentError(f"--bits is one of {', '.join(map(str, config.BITS))}, not {width}")
    if count > most_ranks(dtype):
        raise InvalidArgumentError(
            f"-n must be at most {most_ranks(dtype)}: with more workers, a sum of {dtype} would not be exact"
        )
    if plot_file is not None and importlib.util.find_spec("matplotlib") is None:
        raise InvalidArgumentError("--plot needs matplotlib: pip install matplotlib")
    found: dict[str, Any] = report.environment()
    with tempfile.TemporaryDirectory(prefix="jaxina-bench-") as folder:
        lines = Path(folder) / "lines"
        options = json.dumps(
            {
                "sizes": sizes,
                "iterations": iterations,
                "warmup": warmup,
                "versus_gloo": versus is Versus.GLOO,
                "bits": bits or [settings.bits],
                "rounding": rounding,
                "dtype": dtype,
                "output": str(lines),
            }
        )
        outcome, _ = Launch(
            [sys.executable, "-m", "jaxina.bench.worker", options],
            count,
            settings,
            own_switch=settings.origins["switch"] == "default",
            devices=1,
            trace=trace,
            log="warning",
        ).run()
        text = lines.read_text() if lines.exists() else ""
    records = [report.summarize(json.loads(line)) for line in text.splitlines()]
    title = f"all-reduce of {dtype} over {count} workers, {settings.aggregator}"
    run_report.report(outcome)
    if records:
        Console().print(report.table(records, title))
    if outcome.code == 0:
        found |= {
            "workers": count,
            "dtype": dtype,
            "rounding": rounding,
            "settings": _settings(settings),
            "records": records,
        }
        if json_file is not None:
            with writing("--json", json_file):
                json_file.write_text(json.dumps(found, indent=2) + "\n")
        if plot_file is not None:
            with writing("--plot", plot_file):
                report.plot(records, title, plot_file)
    raise typer.Exit(outcome.code)


def _settings(settings: config.Configuration) -> dict[str, Any]:
    names = ("aggregator", "slots", "block_size", "blocks_per_chunk", "loss", "loss_seed", "codec")
    return {name: getattr(settings, name) for name in names}
