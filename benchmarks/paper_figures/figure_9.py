"""Time of a sum and of a pass, for several pool sizes."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

import drawing
import runs

WORKERS, RATE = 4, 1000
SLOTS = (8, 32, 64, 128, 512)
SIZE, CALLS = 10 * 10**6, 5


def measure(size: int, calls: int) -> list[dict[str, Any]]:
    rows = []
    with runs.links(WORKERS, RATE):
        for slots in SLOTS:
            with tempfile.TemporaryDirectory() as folder:
                trace = Path(folder) / "trace.json"
                options = ("-i", str(calls), "-w", "1", "--aggregator", "udp", "--trace", str(trace))
                record = runs.bench(WORKERS, size, *options, slots=slots)
                events = runs.events_of_worker_0(trace)
            rows.append(
                {"slots": slots, "ms": record["results"]["jaxina"]["median_ms"], "rtt_ms": _rtt(events), **record}
            )
    return rows


def _rtt(events: list[dict[str, Any]]) -> float:
    """Returns the median time from sending a chunk to its result, over the chunks that were sent only once."""
    once = (e["dur"] for e in events if e["name"] == "data" and e["args"]["transmissions"] == 1)
    return statistics.median(once) / 1e3


def table(rows: list[dict[str, Any]]) -> list[list[str]]:
    head = ["slots", "sum, ms", "pass, ms", "packets sent again"]
    return [head] + [
        [str(r["slots"]), f"{r['ms']:.1f}", f"{r['rtt_ms']:.2f}", str(r["engine"]["retransmissions"])] for r in rows
    ]


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    figure, axes = drawing.axes()
    slots = [r["slots"] for r in rows]
    limit = 8e3 * runs.wire_bytes_per_element(rows[0]) * rows[0]["bytes"] / 4 / (RATE * 1e6)
    axes.plot(slots, [r["ms"] for r in rows], "o-", color=drawing.COLOURS["jaxina"], label="sum")
    axes.axhline(limit, color="k", linestyle="--", linewidth=0.8, label="limit of the link")
    axes.set(xscale="log", xlabel="slots", ylabel="ms of a sum", ylim=(0, None))
    axes.set_xticks(slots, [str(s) for s in slots])
    axes.minorticks_off()
    right = axes.twinx()
    right.plot(slots, [r["rtt_ms"] for r in rows], "s:", color=drawing.COLOURS["gloo"], label="pass (right)")
    right.set(ylabel="ms of a pass", ylim=(0, None))
    lines = [*axes.get_lines(), *right.get_lines()]
    axes.legend(lines, [line.get_label() for line in lines], fontsize=8, loc="center left")
    drawing.save(figure, path)
