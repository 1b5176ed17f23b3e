"""Aggregated tensor elements per second, for several numbers of workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import drawing
import runs

WORKERS = (2, 4, 8)
RATE = 1000  # Mbit/s of a worker's link
SIZE, CALLS = 100 * 10**6, 5
# Bytes of data in a TCP segment with timestamps, in an IP packet of 1500 bytes, over the bytes of its Ethernet frame.
_TCP_SHARE = 1448 / 1514


def measure(size: int, calls: int) -> list[dict[str, Any]]:
    rows = []
    for workers in WORKERS:
        with runs.links(workers, RATE):
            record = runs.bench(workers, size, "-i", str(calls), "-w", "2", "--aggregator", "udp", "--vs", "gloo")
        link = RATE * 1e6 / 8
        row = {"workers": workers, "limit": link / runs.wire_bytes_per_element(record), **record}
        row["ring_limit"] = link * _TCP_SHARE / 4 * workers / (2 * (workers - 1))
        for name, result in record["results"].items():
            row[name] = size / 4 / (1e-3 * result["median_ms"])
        rows.append(row)
    return rows


def table(rows: list[dict[str, Any]]) -> list[list[str]]:
    head = ["workers", "jaxina, M/s", "gloo, M/s", "jaxina / gloo", "limit, M/s", "jaxina / limit", "ring's limit, M/s"]
    return [head] + [
        [str(r["workers"]), f"{r['jaxina'] / 1e6:.2f}", f"{r['gloo'] / 1e6:.2f}", f"{r['jaxina'] / r['gloo']:.2f}",
         f"{r['limit'] / 1e6:.2f}", f"{100 * r['jaxina'] / r['limit']:.1f} %", f"{r['ring_limit'] / 1e6:.2f}"]
        for r in rows
    ]  # fmt: skip


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    figure, axes = drawing.axes()
    workers = [r["workers"] for r in rows]
    for name in ("jaxina", "gloo"):
        axes.plot(workers, [r[name] / 1e6 for r in rows], "o-", label=name, color=drawing.COLOURS[name])
    axes.plot(workers, [r["limit"] / 1e6 for r in rows], "k--", label="limit of the link, one way each")
    axes.plot(workers, [r["ring_limit"] / 1e6 for r in rows], "k:", label="limit of a ring")
    axes.set(xlabel="workers", ylabel="aggregated elements, M/s", xticks=workers, ylim=(0, None))
    axes.legend(fontsize=8)
    drawing.save(figure, path)
