#!/usr/bin/env python3
"""Measures what combining in racks saves on the links between racks and core, in the aggregator "atp".

    apt-get install iproute2 ethtool
    benchmarks/testbed/racks.py --workers 8 --rate 50 --oversubscription 4 --json out/racks.json

It needs root, because it makes a testbed (`jaxina testbed`) of two racks, and removes it afterwards. A host at the core
is the server. Workers sum float32 in two ways, by turns: each rack's switch combines first, and the core's the racks'
sums; or only the core's switch combines, which is the server's edge. The kernel's counters say how many bytes crossed
each rack's link to the core. They are compared with the tensor in jaxina's packets, headers included. Every result is
compared with the exact sum.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from unittest import mock

from compare import keep, link_limit_ms, run, spread
from rich import box
from rich.console import Console
from rich.table import Table
from switch_process import switch_at

from jaxina import testbed
from jaxina.bench.stolen_time import StolenTime

RACKS, WARM_UP = 2, 1
WAYS = ("racks and core", "core only")


def measure(way: str, bed: testbed.Testbed, options: argparse.Namespace) -> dict[str, float]:
    """The median in ms; and the bytes of one all-reduce on the busier rack's link to the core, up and down."""
    size = ("-b", options.size, "-e", options.size, "-i", options.iterations, "-w", WARM_UP)
    stolen, load = StolenTime(), os.getloadavg()[0]
    with contextlib.ExitStack() as stack:
        servers = stack.enter_context(switch_at(bed.server_namespace(0), bed.server_host(0)))
        stack.enter_context(mock.patch.dict(os.environ, {"JAXINA_SERVERS": servers}))
        file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "bench.json"
        command = [sys.executable, "-m", "jaxina.cli", "testbed", "run", "bench", "-n", options.workers, *size]
        command += ["--aggregator", "atp", "--json", file]
        if way == "core only":
            core = stack.enter_context(switch_at(bed.switch_namespace, bed.switch_host))
            command += ["--switch", core]
        before = [bed.core_bytes(rack) for rack in range(RACKS)]
        run(command)
        after = [bed.core_bytes(rack) for rack in range(RACKS)]
        (record,) = json.loads(file.read_text())["records"]
    crossed = [
        (a - b) / (options.iterations + WARM_UP)
        for x, y in zip(after, before, strict=True)
        for a, b in zip(x, y, strict=True)
    ]
    found = {"ms": record["results"]["jaxina"]["median_ms"], "up": max(crossed[0::2]), "down": max(crossed[1::2])}
    return found | {"stolen": stolen.share(), "load": load}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--rate", type=int, default=50, help="Mbit/s of a worker's link")
    parser.add_argument("--oversubscription", type=float, default=4)
    parser.add_argument("--size", type=int, default=2_500_000, help="bytes")
    parser.add_argument("-i", "--iterations", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rounds: list[dict[str, dict[str, float]]] = []
    size = testbed.Size(options.workers, RACKS, options.oversubscription, servers=1)
    bed = testbed.up(size, testbed.Link(options.rate))
    try:
        for number in range(options.rounds):
            rounds.append({way: measure(way, bed, options) for way in WAYS})
            print(f"round {number + 1}: {rounds[-1]}", file=sys.stderr, flush=True)
    finally:
        testbed.down()
    limit = link_limit_ms(options.size, options.rate)
    tensor = limit * options.rate * 1e3 / 8
    made = Table(
        title=f"{options.workers} workers in {RACKS} racks, links of {options.rate} Mbit/s, "
        f"{bed.core_rate} Mbit/s to the core, {options.size:,} bytes; median and range",
        box=box.SIMPLE_HEAD,
    )
    for heading in ("who combines", "ms", "of a worker's link", "up / tensor", "down / tensor", "core only / this"):
        made.add_column(heading, justify="right" if heading != "who combines" else "left")
    for way in WAYS:
        found = [one[way] for one in rounds]
        made.add_row(
            way,
            spread([one["ms"] for one in found], 0),
            spread([limit / one["ms"] for one in found]),
            spread([one["up"] / tensor for one in found]),
            spread([one["down"] / tensor for one in found]),
            spread([one["core only"]["ms"] / one[way]["ms"] for one in rounds]),
        )
    console = Console(width=120)
    console.print(made)
    every = [found for one in rounds for found in one.values()]
    stolen, load = (statistics.median(found[name] for found in every) for name in ("stolen", "load"))
    console.print(f"median share of stolen time {100 * stolen:.0f} %, median load {load:.1f}")
    keep(options.json, {**vars(options), "json": None}, rounds)


if __name__ == "__main__":
    main()
