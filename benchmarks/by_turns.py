#!/usr/bin/env python3
"""Compares two builds of jaxina: one command runs by turns in both, and the figures that it prints are compared.

    benchmarks/by_turns.py BEFORE NOW --figure 'sum ?: ([\\d.]+)' --runs 9 -- \\
        build/native/benchmarks/native/udp_bench 2 1 256 8 20 9

BEFORE and NOW are checkouts in which jaxina was built. The command runs in each of them. Prints for each figure both
medians, their ratio and the median of the ratios of the pairs, and the share of time that the machine's host gave to
others.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import statistics
import subprocess
import sys


def stolen() -> tuple[int, int]:
    """Ticks that others had, and all."""
    times = list(map(int, pathlib.Path("/proc/stat").read_text().split()[1:9]))
    return times[7], sum(times)


def figures_of(folder: pathlib.Path, command: list[str], figures: list[re.Pattern[str]]) -> list[float]:
    """Runs the command once and returns what each pattern found."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = [figure.search(done.stdout) for figure in figures]
    absent = [figure.pattern for figure, match in zip(figures, found, strict=True) if match is None]
    if done.returncode != 0 or absent:
        sys.exit(f"{folder}: exit code {done.returncode}, no figure like {absent}:\n{done.stdout}{done.stderr}")
    return [float(match[1]) for match in found if match is not None]


def compare(figure: re.Pattern[str], values: dict[pathlib.Path, list[float]]) -> None:
    print(figure.pattern)
    for folder, all_runs in values.items():
        print(f"{statistics.median(all_runs):10.4g} ({min(all_runs):.4g} - {max(all_runs):.4g})  {folder}")
    before, now = values.values()
    pairs = statistics.median(one / other for one, other in zip(before, now, strict=True))
    print(f"    before / now: {statistics.median(before) / statistics.median(now):.3f}, by pairs {pairs:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("now", type=pathlib.Path)
    parser.add_argument(
        "--figure",
        type=re.compile,
        required=True,
        action="append",
        help="a pattern whose first group is a figure; may be given several times",
    )
    parser.add_argument("--runs", type=int, default=9, help="of each")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    if arguments.before.resolve() == arguments.now.resolve():
        parser.error("two builds are compared, not one with itself")
    found: dict[pathlib.Path, list[list[float]]] = {arguments.before: [], arguments.now: []}
    first = stolen()
    for run in range(arguments.runs):
        for folder in list(found)[:: 1 if run % 2 == 0 else -1]:
            found[folder].append(figures_of(folder, arguments.command, arguments.figure))
        print(f"{run + 1} of {arguments.runs}", end="\r", file=sys.stderr)
    last = stolen()
    for number, figure in enumerate(arguments.figure):
        compare(figure, {folder: [run[number] for run in runs] for folder, runs in found.items()})
    print(f"{(last[0] - first[0]) / (last[1] - first[1]):.2%} stolen")


if __name__ == "__main__":
    main()
