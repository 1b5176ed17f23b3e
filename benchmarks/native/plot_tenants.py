#!/usr/bin/env python3
"""Draws what tenants_bench has printed.

build/native/benchmarks/native/tenants_bench > out/tenants.csv
benchmarks/native/plot_tenants.py out/tenants.csv docs/atp-tenants.svg
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

LINES = (("shared", "shared entries", "o-"), ("reserved", "reserved parts", "s--"), ("servers", "servers alone", ":"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, help="what tenants_bench printed")
    parser.add_argument("plot", type=Path, help="the SVG to write")
    options = parser.parse_args()
    rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(options.table.open())]
    numbers = sorted({int(row["jobs"]) for row in rows})
    matplotlib.rcParams["svg.hashsalt"] = "tenants"  # so that the same figures give the same file
    figure, axes = plt.subplots(1, len(numbers) + 1, figsize=(3 * (len(numbers) + 1), 3.2), sharey=True)
    for jobs, axis in zip(numbers, axes, strict=False):
        mine = [row for row in rows if row["jobs"] == jobs]
        for name, label, style in LINES:
            axis.plot([row["load"] for row in mine], [row[name] for row in mine], style, label=label)
        axis.set_title(f"{jobs} job{'s' if jobs > 1 else ''}: goodput")
    axes[0].set_ylabel("share of a worker's link")
    axes[0].legend(fontsize="small")
    for jobs in numbers:
        mine = [row for row in rows if row["jobs"] == jobs]
        axes[-1].plot([row["load"] for row in mine], [row["hits"] for row in mine], "o-", label=f"{jobs} jobs")
    loads = [row["load"] for row in rows if row["jobs"] == numbers[0]]
    axes[-1].plot(loads, [row["random"] for row in rows if row["jobs"] == numbers[0]], "k:", label="random places")
    axes[-1].set_title("updates that find a place")
    axes[-1].legend(fontsize="small")
    for axis in axes:
        axis.set_xscale("log", base=2)
        axis.set_ylim(0, 1.05)
        axis.set_xlabel("load")
    figure.tight_layout()
    figure.savefig(options.plot, metadata={"Date": None})


if __name__ == "__main__":
    main()
