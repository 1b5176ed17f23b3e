"""What is printed about a run when it has ended."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from jaxina.cli.launcher import Outcome
from jaxina.cli.tagged_output import put


def show(*parts: str, style: str = "") -> None:
    """Prints a line on stderr, or drops it if that fails: the run goes on, and has its own exit code."""
    line = io.StringIO()
    console = Console(file=line, force_terminal=sys.stderr.isatty() or None, highlight=False)
    console.print(*parts, style=style, markup=False, sep="", soft_wrap=True)
    put(sys.stderr, line.getvalue())


def say(text: str, style: str = "") -> None:
    """Prints a line of the run on stderr."""
    show(f"jaxina run: {text}", style=style)


def report(outcome: Outcome) -> None:
    """Prints on stderr why a run failed; nothing if it did not fail."""
    if not outcome.reason:
        return
    for line in outcome.last_lines:
        show("  │ ", line, style="dim")
    say(outcome.reason, style="bold red")


def failure_code(folder: Path, rank: int) -> str:
    """Reads the code of the jaxina error that ended a worker, which the worker wrote itself; empty if it wrote none."""
    try:
        return str(json.loads((folder / f"{rank}.error").read_text())["code"])
    except (OSError, ValueError, KeyError):
        return ""


def collect(folder: Path) -> dict[str, Any]:
    """Collects the statistics that the workers wrote at their shutdown. A worker that died wrote nothing.

    Returns:
      ``{"workers": [statistics of each], "total": {name: sum over the workers}}``.
    """
    workers = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"), key=lambda path: int(path.stem))]
    names = [name for name in (workers[0] if workers else {}) if name not in ("process", "aggregator")]
    return {
        "workers": workers,
        "total": {name: sum(worker[name] for worker in workers) for name in names},
    }


def statistics(collected: dict[str, Any]) -> str:
    """One line about the statistics that `collect` returned."""
    total = collected["total"]
    if not total:
        return "no statistics: no process reached jaxina.shutdown() or ended without an error"
    sent = total["packets_sent"]
    marks = (
        f", {total['marked']} marked, windows decreased {total['window_decreases']} times" if total["marked"] else ""
    )
    share = f" ({100 * total['retransmissions'] / sent:.2f} %)" if sent else ""
    return (
        f"{len(collected['workers'])} workers, {total['collectives']} collectives: {sent} packets sent, "
        f"{total['packets_received']} received, {total['retransmissions']} retransmissions{share}, "
        f"{total['packets_dropped']} dropped, {total['packets_rejected']} rejected{marks}"
    )
