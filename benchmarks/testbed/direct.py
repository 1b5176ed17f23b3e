#!/usr/bin/env python3
"""Compares all-reduces of float32 on shaped links by the workers' own servers (direct), a switch (udp), and gloo.

    apt-get install iproute2 ethtool
    benchmarks/testbed/direct.py --workers 4 --rate 200 --rounds 2 --json out/direct.json

It needs root, because it makes a testbed (`jaxina testbed`), and removes it afterwards. direct and udp take turns; each
is measured together with gloo, in the same JAX processes (`jaxina bench --vs gloo`). Every result is compared with the
exact sum. A figure is the median of the rounds' medians. Ratios are taken within a round. "of the link" is what a
worker's link would need for the tensor once, in jaxina's packets, as a share of direct's time.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from compare import bench_records, keep, link_limit_ms, spread
from rich import box
from rich.console import Console
from rich.table import Table

from jaxina import testbed
from jaxina.bench.stolen_time import StolenTime, warning

AGGREGATORS = ("direct", "udp")
Round = dict  # for each size in bytes: the ms of "direct", "udp", and of gloo beside each


def measure(options: argparse.Namespace) -> Round:
    found: Round = {}
    testbed.up(testbed.Size(options.workers), testbed.Link(options.rate))
    try:
        for aggregator in AGGREGATORS:
            sizes = ("-b", options.begin, "-e", options.end, "-f", 5)
            for record in bench_records(aggregator, "-n", options.workers, "-i", options.iterations, *sizes):
                of_size = found.setdefault(record["bytes"], {})
                of_size[aggregator] = record["results"]["jaxina"]["median_ms"]
                of_size[f"gloo beside {aggregator}"] = record["results"]["gloo"]["median_ms"]
    finally:
        testbed.down()
    return found


def table(rounds: list[Round], options: argparse.Namespace) -> Table:
    made = Table(
        title=f"{options.workers} workers on links of {options.rate} Mbit/s; ms, median (least - most)",
        box=box.SIMPLE_HEAD,
    )
    for heading in ("bytes", "direct", "of the link", "gloo", "gloo / direct", "udp", "gloo / udp"):
        made.add_column(heading, justify="right")
    for size in rounds[0]:
        of_size = [one[size] for one in rounds]
        limit = link_limit_ms(size, options.rate)
        made.add_row(
            f"{size:,}",
            spread([ms["direct"] for ms in of_size]),
            spread([limit / ms["direct"] for ms in of_size]),
            spread([ms["gloo beside direct"] for ms in of_size]),
            spread([ms["gloo beside direct"] / ms["direct"] for ms in of_size]),
            spread([ms["udp"] for ms in of_size]),
            spread([ms["gloo beside udp"] / ms["udp"] for ms in of_size]),
        )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rate", type=int, default=200, help="Mbit/s of a worker's link")
    parser.add_argument("-b", "--begin", default="4K", help="smallest size; each next one is five times as large")
    parser.add_argument("-e", "--end", default="20M", help="largest size")
    parser.add_argument("-i", "--iterations", type=int, default=7, help="calls per peer and round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    stolen = StolenTime()
    rounds = [measure(options) for _ in range(options.rounds)]
    console = Console(width=130)
    console.print(table(rounds, options))
    if told := warning(stolen.share()):
        console.print(told)
    same = {name: getattr(options, name) for name in ("workers", "rate", "iterations")}
    keep(options.json, same, rounds)


if __name__ == "__main__":
    main()
