"""``jaxina sim``: runs seeds of the simulator, which runs the real protocol in virtual time."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from jaxina import _native
from jaxina.cli.output_files import check_output, writing
from jaxina.errors import InvalidArgumentError


def register(app: typer.Typer) -> None:
    app.command("sim")(sim)


def sim(
    seeds: Annotated[str, typer.Option(metavar="A:B", help="Seeds A to B - 1, or one seed.")],
    scenario: Annotated[
        str, typer.Option(metavar="NAME", help="Which faults to draw; 'list' lists the names.")
    ] = "swarm",
    jobs: Annotated[int | None, typer.Option(min=1, max=1024, help="Threads. If not given, one per core.")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Print one seed's timeline.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the figures to FILE.")] = None,
) -> None:
    """Run the real worker and aggregator in virtual time, with faults drawn from each seed.

    The exit code is 1 if a seed finds an error. To replay such a seed: --seeds SEED --trace.
    """
    if scenario == "list":
        for name, text in _native.sim.scenarios():
            print(f"{name:12} {text}")
        return
    begin, end = parse_seeds(seeds)
    check_output("--json", json_file)
    if trace:
        if end != begin + 1:
            raise InvalidArgumentError("--trace needs a single seed, such as --seeds 17")
        sys.exit(print_trace(scenario, begin))
    figures = run_campaign(scenario, begin, end, jobs or os.cpu_count() or 1)
    figures["scenario"] = scenario
    figures["first_seed"] = begin
    figures["packets_per_core_second"] = figures["packets"] / max(figures["core_seconds"], 1e-9)
    if json_file is not None:
        with writing("--json", json_file):
            json_file.write_text(json.dumps(figures, indent=2) + "\n")
    print_summary(figures)
    if figures["seeds"] < end - begin:
        print(f"stopped; to run the rest: --seeds {begin + figures['seeds']}:{end}")
    sys.exit(1 if figures["failures"] or figures["seeds"] < end - begin else 0)


def parse_seeds(text: str) -> tuple[int, int]:
    """Reads ``A:B`` as (A, B), and ``A`` as (A, A + 1).

    Raises:
      InvalidArgumentError: the text is neither.
    """
    if match := re.fullmatch(r"([0-9]{1,20})(?::([0-9]{1,20}))?", text):
        first, last = match.groups()
        begin, end = int(first), int(last) if last else int(first) + 1
        if begin < end < 2**64:
            return begin, end
    raise InvalidArgumentError(f"--seeds takes A:B with A < B, or one seed, not {text!r}")


def run_campaign(scenario: str, begin: int, end: int, threads: int) -> dict[str, Any]:
    """Runs the seeds from `begin` to below `end`, or until Ctrl-C or SIGTERM, and returns the figures.

    It shows a progress bar on stderr. If stderr is not a terminal, it prints a line for each twentieth of the seeds.
    """
    campaign = _native.sim.Campaign(scenario, begin, end, threads)
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    total, told = end - begin, 0
    previous = {number: signal.signal(number, lambda *_: campaign.stop()) for number in (signal.SIGINT, signal.SIGTERM)}
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(scenario, total=total)
        while not campaign.finished:
            done = campaign.done
            progress.update(bar, completed=done)
            if not console.is_terminal and 20 * done // total > told:
                told = 20 * done // total
                console.print(f"{done:,} of {total:,} seeds")
            time.sleep(0.05)
    for number, handler in previous.items():
        signal.signal(number, handler)
    return campaign.result()


def print_trace(scenario: str, seed: int) -> int:
    """Prints one seed's plan and timeline. Returns the exit code: 1 if the seed failed."""
    plan, timeline, log_hash, failure = _native.sim.trace(scenario, seed)
    print(f"{plan}{timeline}\nlog hash {log_hash:016x}\n{failure or 'every oracle was content'}")
    return 1 if failure else 0


def print_summary(figures: dict[str, Any]) -> None:
    """Prints each failed seed, and the figures in one line."""
    for seed, what in figures["failures"]:
        print(f"seed {seed}: {what}")
    print(
        f"{figures['seeds']:,} seeds of {figures['scenario']}, {len(figures['failures'])} failed; "
        f"{figures['packets']:,} packets ({figures['lost']:,} lost, "
        f"{figures['duplicated']:,} duplicated, {figures['corrupted']:,} corrupted, "
        f"{figures['hostile']:,} hostile), {figures['sums']:,} sums checked, "
        f"{figures['jobs_finished']:,} jobs finished, {figures['jobs_ended_early']:,} ended with an error, as "
        f"expected; {figures['seconds']:.1f} s, "
        f"{figures['packets_per_core_second'] / 1e6:.2f} million packets per second and core"
    )
