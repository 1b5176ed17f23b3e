"""How much longer a sum takes when links lose packets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import drawing
import runs

sys.path.append(str(Path(__file__).parents[1] / "testbed"))
import open_mpi

WORKERS, RATE = 4, 200
LOSSES = (runs.NEXT_TO_NO_LOSS, 1e-4, 1e-3, 1e-2)
SIZE, CALLS = 20 * 10**6, 5


def measure(size: int, calls: int) -> list[dict[str, Any]]:
    open_mpi.require()
    rows = []
    for loss in LOSSES:
        with runs.links(WORKERS, RATE, loss):
            record = runs.bench(WORKERS, size, "-i", str(calls), "-w", "2", "--aggregator", "udp", "--vs", "gloo")
            times = {name: result["median_ms"] for name, result in record["results"].items()}
            times["Open MPI, TCP"] = open_mpi.all_reduce_ms(WORKERS, size, calls)
        rows.append({"loss": loss, "ms": times, **record})
        rows[-1]["inflation"] = {name: t / rows[0]["ms"][name] for name, t in times.items()}
    return rows


def name_of(row: dict[str, Any]) -> str:
    return "none" if row["loss"] == runs.NEXT_TO_NO_LOSS else f"{100 * row['loss']:g} %"


def table(rows: list[dict[str, Any]]) -> list[list[str]]:
    names = list(rows[0]["ms"])
    head = ["loss", *(f"{name}, ms" for name in names), *(f"{name}, times no loss" for name in names)]
    return [head] + [
        [name_of(r), *(f"{r['ms'][n]:.0f}" for n in names), *(f"{r['inflation'][n]:.2f}" for n in names)] for r in rows
    ]


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    figure, axes = drawing.axes()
    lossy = rows[1:]
    heights = {name: [r["inflation"][name] for r in lossy] for name in rows[0]["ms"]}
    drawing.bars_beside(axes, [name_of(r) for r in lossy], heights, "%.2f")
    axes.axhline(1, color="k", linewidth=0.8)
    axes.set(xlabel="loss on each link, each way", ylabel="time, as a multiple of no loss", ylim=(0, None))
    axes.legend(fontsize=8)
    drawing.save(figure, path)
