"""Shows what a benchmark run found, as a table, as JSON or as a picture."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import statistics
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from jaxina.bench.sizes import size_text
from jaxina.bench.stolen_time import warning


def summarize(line: dict[str, Any]) -> dict[str, Any]:
    """Makes the record of one size from its times.

    For each implementation it has the median, the 10th and the 90th percentile in ms, and algbw = bytes / median time
    in GB/s (powers of 1000). "stolen" is the share that `StolenTime` found.
    """
    record: dict[str, Any] = {name: line[name] for name in ("bytes", "engine", "stolen")}
    record["results"] = {}
    for name, times in line["times_ms"].items():
        median = statistics.median(times)
        record["results"][name] = {
            "calls": len(times),
            "median_ms": median,
            "p10_ms": _percentile(times, 0.1),
            "p90_ms": _percentile(times, 0.9),
            "algbw_GBps": line["bytes"] / median / 1e6,
        }
    return record


def _percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def table(records: list[dict[str, Any]], title: str) -> Table:
    """Makes a table of the times, in ms. If gloo was timed, the last column is how many times faster jaxina is."""
    caption = "algbw = bytes / median time; a call's time is that of its slowest worker"
    if stolen := warning(max(record["stolen"] for record in records)):
        caption += f"\n{stolen}"
    made = Table(title=title, caption=caption, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    names = list(records[0]["results"])
    if len(names) > 2:
        return _long_table(records, title, caption)
    headings = ["size"]
    for name in names:
        headings += [f"{name}\nms", "p10 - p90\nms", "algbw\nGB/s"]
    if "gloo" in names:
        headings.append("gloo /\njaxina")
    for heading in headings:
        made.add_column(heading, justify="right", no_wrap=True)
    for record in records:
        made.add_row(*_row(record))
    return made


def _long_table(records: list[dict[str, Any]], title: str, caption: str) -> Table:
    """The table for more ways than fit side by side: one row for each."""
    made = Table(title=title, caption=caption, box=box.SIMPLE_HEAD)
    names = list(records[0]["results"])
    peers = ["gloo"] if "gloo" in names else []
    made.add_column("size", justify="right", no_wrap=True)
    made.add_column("by", no_wrap=True)
    for heading in ("ms", "p10 - p90, ms", "algbw, GB/s", *(f"{peer} / it" for peer in peers)):
        made.add_column(heading, justify="right", no_wrap=True)
    for record in records:
        results = record["results"]
        for name, result in results.items():
            made.add_row(
                size_text(record["bytes"]) if name == names[0] else "",
                name,
                _ms(result["median_ms"]),
                f"{_ms(result['p10_ms'])} - {_ms(result['p90_ms'])}",
                f"{result['algbw_GBps']:.3f}",
                *(f"{results[peer]['median_ms'] / result['median_ms']:.2f}" for peer in peers),
            )
    return made


def _row(record: dict[str, Any]) -> list[str]:
    results = record["results"]
    row = [size_text(record["bytes"])]
    for result in results.values():
        row.append(_ms(result["median_ms"]))
        row.append(f"{_ms(result['p10_ms'])} - {_ms(result['p90_ms'])}")
        row.append(f"{result['algbw_GBps']:.3f}")
    if "gloo" in results:
        ours = next(result for name, result in results.items() if name != "gloo")
        row.append(f"{results['gloo']['median_ms'] / ours['median_ms']:.2f}")
    return row


def _ms(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def environment() -> dict[str, Any]:
    """Describes the machine and the versions that were measured."""
    return {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "memory_GB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
            "load_average_before": os.getloadavg()[0],
            "system": f"{platform.system()} {platform.release()}",
        },
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in ("jaxina", "jax", "jaxlib", "numpy")},
        },
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def plot(records: list[dict[str, Any]], title: str, path: Path) -> None:
    """Draws the median time over the size, with the band from p10 to p90, as a PNG. Both axes are logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5))
    sizes = [record["bytes"] for record in records]
    for name in records[0]["results"]:
        results = [record["results"][name] for record in records]
        (line,) = axes.plot(sizes, [r["median_ms"] for r in results], marker="o", label=name)
        low, high = [r["p10_ms"] for r in results], [r["p90_ms"] for r in results]
        axes.fill_between(sizes, low, high, color=line.get_color(), alpha=0.2)
    axes.set(xscale="log", yscale="log", xlabel="bytes", ylabel="ms (median; band p10 to p90)")
    axes.set_title(title)
    axes.grid(True, which="major", alpha=0.4)
    axes.legend()
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)
