#!/usr/bin/env python3
"""Times all-reduces of float32 in words of 32, 16 and 8 bits beside XLA's gloo in float32 and bfloat16.

    apt-get install iproute2 ethtool
    benchmarks/testbed/narrow.py --rounds 2 --json out/narrow.json

It measures shared memory with 2 and 4 workers, and udp and roce on shaped links. It needs root, because it makes
testbeds (`jaxina testbed`), and removes them afterwards. All ways of a row take turns in the same JAX processes
(`jaxina bench --bits 32 --bits 16 --bits 8 --vs gloo`), and every result is checked: the sums of 8 and 16 bits must
have the bits of `jaxina.numerics`. A figure is the median of the rounds' medians. Ratios are taken within a round.
"links" is what a worker's link would need for the words once, with all headers.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from pathlib import Path

from compare import LIMIT_S, bench_records, keep, link_limit_ms, run, spread
from rich import box
from rich.console import Console
from rich.table import Table

from jaxina import testbed
from jaxina.bench.stolen_time import StolenTime, warning

WIDTHS = (32, 16, 8)
Times = dict[str, float]  # the ms of each way, by its name in `jaxina bench`


@dataclasses.dataclass(frozen=True)
class Case:
    aggregator: str
    workers: int
    rate: int = 0  # Mbit/s of a worker's link; 0: no links

    @property
    def name(self) -> str:
        return f"{self.aggregator}, {self.workers} workers" + (f", {self.rate} Mbit/s" if self.rate else "")


CASES = (
    Case("embedded", 2),
    Case("embedded", 4),
    Case("udp", 4, 1000),
    Case("udp", 8, 200),
    Case("roce", 4, 1000),
)


def name_of(bits: int) -> str:
    return "jaxina" if bits == 32 else f"jaxina, {bits} bits"


def measure(case: Case, options: argparse.Namespace) -> Times:
    widths = [part for bits in WIDTHS for part in ("--bits", bits)]
    arguments = ("-n", case.workers, "-b", options.size, "-e", options.size, "-i", options.iterations, *widths)
    if case.rate:
        testbed.up(testbed.Size(case.workers), testbed.Link(case.rate))
        try:
            (record,) = bench_records(case.aggregator, *arguments)
        finally:
            testbed.down()
    else:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "bench.json"
            command = [sys.executable, "-m", "jaxina.cli", "bench", *arguments, "-w", 2, "--vs", "gloo", "--json", file]
            run([*command, "--aggregator", case.aggregator])
            (record,) = json.loads(file.read_text())["records"]
    return {name: result["median_ms"] for name, result in record["results"].items()}


def table(rounds: dict[str, list[Times]], options: argparse.Namespace) -> Table:
    made = Table(
        title=f"all-reduce of {options.size / 1e6:g} MB of float32; ms, median (least - most)",
        caption="x 32: how many times faster than words of 32 bits. gloo / it: float32, bfloat16",
        box=box.SIMPLE_HEAD,
    )
    for heading in ("", "bits", "ms", "links, ms", "x 32", "gloo / it", "gloo bfloat16 / it"):
        made.add_column(heading, justify="right")
    for case in CASES:
        if case.name not in rounds:
            continue
        found = rounds[case.name]
        for bits in WIDTHS:
            own = [times[name_of(bits)] for times in found]
            made.add_row(
                case.name if bits == 32 else "",
                str(bits),
                spread(own, 0),
                f"{link_limit_ms(options.size, case.rate, bits):.0f}" if case.rate else "",
                spread([times["jaxina"] / times[name_of(bits)] for times in found]),
                spread([times["gloo"] / times[name_of(bits)] for times in found]),
                spread([times["gloo, bfloat16"] / times[name_of(bits)] for times in found]),
            )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=100_000_000, help="bytes of the tensor")
    parser.add_argument("-i", "--iterations", type=int, default=5, help="calls per way and round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=[case.aggregator for case in CASES], help="only these aggregators")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    stolen, console = StolenTime(), Console(width=120)
    rounds: dict[str, list[Times]] = {}
    for number in range(options.rounds):
        for case in CASES:
            if options.only and case.aggregator not in options.only:
                continue
            console.print(f"round {number + 1} of {options.rounds}: {case.name} (at most {LIMIT_S} s)", style="dim")
            rounds.setdefault(case.name, []).append(measure(case, options))
    console.print(table(rounds, options))
    if told := warning(stolen.share()):
        console.print(told)
    same = {name: getattr(options, name) for name in ("size", "iterations")}
    keep(options.json, same, rounds)


if __name__ == "__main__":
    main()
