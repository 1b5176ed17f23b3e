"""Packets that worker 0 sends in every 10 ms of one sum, from its timeline."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import drawing
import runs
from figure_6 import name_of

WORKERS, RATE = 4, 200
LOSSES = (runs.NEXT_TO_NO_LOSS, 1e-4, 1e-2)
SIZE, CALLS = 20 * 10**6, 1
STEP_MS = 10


def measure(size: int, calls: int) -> list[dict[str, Any]]:
    rows = []
    for loss in LOSSES:
        with runs.links(WORKERS, RATE, loss), tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.json"
            options = ("-i", str(calls), "-w", "2", "--aggregator", "udp", "--trace", str(trace))
            record = runs.bench(WORKERS, size, *options)
            events = runs.events_of_worker_0(trace)
        begin, end = runs.last_collective(events)
        sent = {name: [0] * (int((end - begin) / 1e3 / STEP_MS) + 1) for name in ("sent", "sent again")}
        for event in events:
            if event["name"] in sent and begin <= event["ts"] <= end:
                sent[event["name"]][int((event["ts"] - begin) / 1e3 / STEP_MS)] += 1
        ideal = RATE * 1e6 / 8 * STEP_MS * 1e-3 / runs.wire_bytes_per_packet(record)
        rows.append({"loss": loss, "ms": (end - begin) / 1e3, "ideal": ideal, **sent, **record})
    return rows


def table(rows: list[dict[str, Any]]) -> list[list[str]]:
    head = ["loss", "ms", "packets", "of them again", "least and most in 10 ms, but the last", "the link's limit"]
    result = [head]
    for r in rows:
        both = [a + b for a, b in zip(r["sent"], r["sent again"], strict=True)]
        span = f"{min(both[:-1])} - {max(both[:-1])}" if len(both) > 1 else "-"
        result.append(
            [name_of(r), f"{r['ms']:.0f}", str(sum(both)), str(sum(r["sent again"])), span, f"{r['ideal']:.0f}"]
        )
    return result


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    figure, all_axes = drawing.axes(len(rows), 3.4)
    most = max(max(a + b for a, b in zip(r["sent"], r["sent again"], strict=True)) for r in rows)
    latest = max(r["ms"] for r in rows)
    for r, axes in zip(rows, all_axes, strict=True):
        places = [STEP_MS * i for i in range(len(r["sent"]))]
        axes.bar(places, r["sent"], STEP_MS, align="edge", color=drawing.COLOURS["jaxina"], label="sent")
        axes.bar(places, r["sent again"], STEP_MS, r["sent"], align="edge", color="#D55E00", label="sent again")
        axes.axhline(r["ideal"], color="k", linestyle="--", linewidth=0.8, label="the link's limit")
        axes.axvline(r["ms"], color="k", linewidth=0.8)
        axes.set(title=f"loss: {name_of(r)}", xlabel="ms", xlim=(0, 1.03 * latest), ylim=(0, 1.25 * most))
    all_axes[0].set_ylabel("packets in 10 ms")
    all_axes[0].legend(fontsize=8, loc="upper right")
    drawing.save(figure, path)
