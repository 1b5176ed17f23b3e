#!/usr/bin/env python3
"""Compares two builds of jaxina: runs one command in both, by turns, and compares a figure that it prints.

    benchmarks/by_turns.py BEFORE NOW --figure 'sum ?: ([\\d.]+)' --runs 9 -- build/native/benchmarks/native/udp_bench 2
    1 256 8 20 9

BEFORE and NOW are checkouts in which jaxina was built. The command runs in each of them. The output has both medians,
their ratio, the median of the ratios of the pairs, and the share of time that the machine's host gave to other
machines.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import statistics
import subprocess
import sys


def stolen() -> tuple[int, int]:
    """Returns the processor ticks that the host gave to other machines, and all ticks."""
    times = list(map(int, pathlib.Path("/proc/stat").read_text().split()[1:9]))
    return times[7], sum(times)


def figure_of(folder: pathlib.Path, command: list[str], figure: re.Pattern[str]) -> float:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    found = figure.search(done.stdout)
    if done.returncode != 0 or found is None:
        sys.exit(
            f"{folder}: exit code {done.returncode}, and no figure like {figure.pattern}:\n{done.stdout}{done.stderr}"
        )
    return float(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=pathlib.Path, help="checkout of the build to compare with")
    parser.add_argument("now", type=pathlib.Path, help="checkout of the build that is judged")
    parser.add_argument("--figure", type=re.compile, required=True, help="a pattern whose first group is the figure")
    parser.add_argument("--runs", type=int, default=9, help="runs of each build")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    if arguments.before.resolve() == arguments.now.resolve():
        parser.error("two builds are compared, not one with itself")
    figures: dict[pathlib.Path, list[float]] = {arguments.before: [], arguments.now: []}
    first = stolen()
    for run in range(arguments.runs):
        for folder in list(figures)[:: 1 if run % 2 == 0 else -1]:
            figures[folder].append(figure_of(folder, arguments.command, arguments.figure))
        print(f"{run + 1} of {arguments.runs}", end="\r", file=sys.stderr)
    last = stolen()
    for folder, values in figures.items():
        print(f"{statistics.median(values):10.4g} ({min(values):.4g} - {max(values):.4g})  {folder}")
    before, now = figures.values()
    pairs = statistics.median(one / other for one, other in zip(before, now, strict=True))
    share = (last[0] - first[0]) / (last[1] - first[1])
    print(
        f"before / now: {statistics.median(before) / statistics.median(now):.3f}, by pairs {pairs:.3f}; {share:.2%} stolen"
    )


if __name__ == "__main__":
    main()
