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


def number_of(jobs: int) -> str:
    return "1 job" if jobs == 1 else f"{jobs} jobs"


def goodput(axis, rows: list[dict[str, float]]) -> None:
    for name, label, style in LINES:
        axis.plot([row["load"] for row in rows], [row[name] for row in rows], style, label=label)


def hits(axis, rows: list[dict[str, float]], numbers: list[int]) -> None:
    for jobs in numbers:
        mine = [row for row in rows if row["jobs"] == jobs]
        axis.plot([row["load"] for row in mine], [row["hits"] for row in mine], "o-", label=number_of(jobs))
    loads = [row["load"] for row in rows if row["jobs"] == numbers[0]]
    axis.plot(loads, [row["random"] for row in rows if row["jobs"] == numbers[0]], "k:", label="random places")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, help="what tenants_bench printed")
    parser.add_argument("plot", type=Path, help="the SVG to write")
    options = parser.parse_args()
    rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(options.table.open())]
    numbers = sorted({int(row["jobs"]) for row in rows})
    cores = sorted({int(row["oversubscription"]) for row in rows})
    matplotlib.rcParams["svg.hashsalt"] = "tenants"  # so that the same figures give the same file
    size = (2.9 * (len(numbers) + 1), 2.7 * len(cores))
    figure, axes = plt.subplots(len(cores), len(numbers) + 1, figsize=size, sharex=True, sharey=True, squeeze=False)
    for core, line in zip(cores, axes, strict=True):
        there = [row for row in rows if row["oversubscription"] == core]
        for jobs, axis in zip(numbers, line, strict=False):
            goodput(axis, [row for row in there if row["jobs"] == jobs])
        hits(line[-1], there, numbers)
        line[0].set_ylabel("one switch" if core == 1 else f"two racks, {core}:1")
    for jobs, axis in zip(numbers, axes[0], strict=False):
        axis.set_title(f"{number_of(jobs)}: share of a link", fontsize="medium")
    axes[0][-1].set_title("updates that find a place", fontsize="medium")
    # Below the panels, where no legend covers a point.
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="lower left", ncols=3)
    figure.legend(*axes[0][-1].get_legend_handles_labels(), loc="lower right", ncols=5)
    for axis in axes.flat:
        axis.set_xscale("log", base=2)
        axis.set_ylim(0, 1.05)
    for axis in axes[-1]:
        axis.set_xlabel("load")
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(options.plot, metadata={"Date": None})


if __name__ == "__main__":
    main()
