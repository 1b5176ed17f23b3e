"""Cost of converting types: int32 is summed as it is, float32 and float16 are quantized first."""

# Measured twice: on links, and in shared memory, where no network hides the cost of the conversion.

from __future__ import annotations

from pathlib import Path
from typing import Any

import drawing
import runs

BYTES = {"int32": 4, "float32": 4, "float16": 2}  # of an element in memory; on the wire it has 4 bytes in each type
PLACES = {"udp": "4 workers, 1 Gbit/s", "embedded": "2 workers, shared memory"}
SIZE, CALLS = 25 * 10**6, 15  # bytes of float32


def measure(size: int, calls: int) -> list[dict[str, Any]]:
    rows = []
    with runs.links(4, 1000):
        for dtype, width in BYTES.items():
            options = ("--dtype", dtype, "-i", str(calls), "-w", "2", "--aggregator", "udp")
            rows.append({"type": dtype, "place": "udp", **runs.bench(4, size // 4 * width, *options)})
    for dtype, width in BYTES.items():
        options = ("--dtype", dtype, "-i", str(3 * calls), "--aggregator", "embedded")
        rows.append({"type": dtype, "place": "embedded", **runs.bench(2, size // 4 * width, *options, on_links=False)})
    return rows


def _ms(rows: list[dict[str, Any]], place: str) -> dict[str, float]:
    return {r["type"]: r["results"]["jaxina"]["median_ms"] for r in rows if r["place"] == place}


def table(rows: list[dict[str, Any]]) -> list[list[str]]:
    result = [["", *BYTES, "float32 / int32", "float16 / int32"]]
    for place, name in PLACES.items():
        ms = _ms(rows, place)
        result.append([name, *(f"{t:.1f} ms" for t in ms.values())])
        result[-1] += [f"{ms[dtype] / ms['int32']:.2f}" for dtype in ("float32", "float16")]
    return result


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    figure, both = drawing.axes(len(PLACES), 3.6)
    for axes, (place, name) in zip(both, PLACES.items(), strict=True):
        ms = _ms(rows, place)
        axes.bar_label(
            axes.bar(list(ms), list(ms.values()), 0.6, color=drawing.COLOURS["jaxina"]), fmt="%.1f", fontsize=8
        )
        axes.set(title=name, ylabel="ms")
    drawing.save(figure, path)
