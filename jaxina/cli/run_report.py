"""What is said of a run when it has ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from jaxina.cli.launcher import Outcome


def say(text: str, style: str = "") -> None:
    """A line on stderr."""
    Console(stderr=True, highlight=False).print(f"jaxina run: {text}", style=style, markup=False, soft_wrap=True)


def report(outcome: Outcome) -> None:
    """Says on stderr why a run failed."""
    if not outcome.reason:
        return
    console = Console(stderr=True, highlight=False)
    for line in outcome.last_lines:
        console.print("  │ ", line, style="dim", markup=False, sep="", soft_wrap=True)
    say(outcome.reason, style="bold red")


def failure_code(folder: Path, rank: int) -> str:
    """The code of the jaxina error that ended the worker, as it said itself; empty if it said none."""
    try:
        return str(json.loads((folder / f"{rank}.error").read_text())["code"])
    except (OSError, ValueError, KeyError):
        return ""


def collect(folder: Path) -> dict[str, Any]:
    """What the processes wrote at their shutdown; a process that died wrote nothing."""
    workers = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"), key=lambda path: int(path.stem))]
    names = [name for name in (workers[0] if workers else {}) if name not in ("process", "aggregator")]
    return {
        "workers": workers,
        "total": {name: sum(worker[name] for worker in workers) for name in names},
    }


def statistics(collected: dict[str, Any]) -> str:
    total = collected["total"]
    if not total:
        return "no statistics: no process reached jaxina.shutdown() or its orderly end"
    sent = total["packets_sent"]
    share = f" ({100 * total['retransmissions'] / sent:.2f} %)" if sent else ""
    return (
        f"{len(collected['workers'])} workers, {total['collectives']} collectives: {sent} packets sent, "
        f"{total['packets_received']} received, {total['retransmissions']} retransmissions{share}, "
        f"{total['packets_dropped']} dropped, {total['packets_rejected']} rejected"
    )
