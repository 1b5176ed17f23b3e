#!/usr/bin/env python3
"""Compares all-reduces of float32 in a ring of reliable connections, without and with a switch that adds.

    apt-get install iproute2
    benchmarks/testbed/netreduce.py --workers 4 --rate 200 --rounds 3 --json out/netreduce.json

It needs root, because it makes a testbed (`jaxina testbed`), and removes it afterwards. In each round the workers sum
in a plain ring. Then a transparent switch takes the bridge's place, and they sum through it: without loss, and with
`--loss`, which is the share of packets that each worker drops as they come. Every result is compared with the exact
sum. A figure is the median of the rounds' medians. Ratios are taken within a round. Theory says that a ring takes
2 (n - 1) / n times as long. "of the plan" is the time as a share of what `jaxina plan` says, without latency.

`--slots` is for jobs with a switch. All slots' messages together may take 128 packets there. So larger packets allow
more slots: `--mtu 9000 --slots 25`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from compare import keep, run, spread
from rich import box
from rich.console import Console
from rich.table import Table
from switch_process import any_switch_at

from jaxina import testbed
from jaxina.bench.ring_model import Machines, bytes_on_link
from jaxina.bench.sizes import parse_size
from jaxina.bench.stolen_time import StolenTime, warning

Round = dict  # ms of "ring", "switch" and "switch with loss"


@contextlib.contextmanager
def transparent_switch(made: testbed.Testbed) -> Iterator[str]:
    """Runs a transparent switch in the place of the testbed's bridge. Yields its control address."""
    ports = testbed.without_bridge(made)
    with any_switch_at(testbed.BRIDGE, made.transparent_host, "--transparent", ",".join(ports)) as address:
        yield address


def median_ms(options: argparse.Namespace, *more: object, slots: int | None = None) -> float:
    os.environ.pop("JAXINA_SLOTS", None)
    if slots is not None:
        os.environ["JAXINA_SLOTS"] = str(slots)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.json"
        command = [sys.executable, "-m", "jaxina.cli", "testbed", "run", "bench", "-n", options.workers]
        command += ["-b", options.size, "-e", options.size, "-i", options.iterations, "-w", 2, "--json", file]
        run([*command, "--aggregator", "netreduce", *more])
        (record,) = json.loads(file.read_text())["records"]
        return record["results"]["jaxina"]["median_ms"]


def measure(options: argparse.Namespace) -> Round:
    made = testbed.up(testbed.Size(options.workers), testbed.Link(options.rate, mtu=options.mtu))
    try:
        found = {"ring": median_ms(options)}
        with transparent_switch(made) as switch:
            found["switch"] = median_ms(options, "--switch", switch, slots=options.slots)
            found["switch with loss"] = median_ms(
                options, "--switch", switch, "--loss", options.loss, slots=options.slots
            )
    finally:
        testbed.down()
    return found


def table(rounds: list[Round], options: argparse.Namespace) -> Table:
    made = Table(
        title=f"{options.size} between {options.workers} workers on links of {options.rate} Mbit/s; ms, median "
        "(least - most)",
        box=box.SIMPLE_HEAD,
    )
    size = bytes_on_link(parse_size(options.size), mtu=4096 if options.mtu > 4200 else 1024)
    planned = Machines(options.workers, 1, options.rate * 1e6 / 8, inside=1.0, latency=0.0)
    ring_ms, switch_ms = 1e3 * planned.ring_s(size), 1e3 * planned.switch_s(size)
    lossy = f"{100 * options.loss:g} % lost"
    headings = ("ring", "of the plan", "switch", "of the plan", "ring / switch", "theory", lossy, f"{lossy} / none")
    for heading in headings:
        made.add_column(heading, justify="right")
    made.add_row(
        spread([one["ring"] for one in rounds], 0),
        spread([one["ring"] / ring_ms for one in rounds]),
        spread([one["switch"] for one in rounds], 0),
        spread([one["switch"] / switch_ms for one in rounds]),
        spread([one["ring"] / one["switch"] for one in rounds]),
        f"{2 * (options.workers - 1) / options.workers:.2f}",
        spread([one["switch with loss"] for one in rounds], 0),
        spread([one["switch with loss"] / one["switch"] for one in rounds]),
    )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rate", type=int, default=200, help="Mbit/s of a worker's link")
    parser.add_argument("--mtu", type=int, default=1500, help="largest IP packet of a link")
    parser.add_argument("--slots", type=int, help="slots of the jobs with a switch, if not the default")
    parser.add_argument("--size", default="8M", help="bytes of the tensor")
    parser.add_argument("--loss", type=float, default=0.001, help="share of packets that each worker drops")
    parser.add_argument("-i", "--iterations", type=int, default=5, help="calls per peer and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    stolen = StolenTime()
    rounds = [measure(options) for _ in range(options.rounds)]
    console = Console(width=130)
    console.print(table(rounds, options))
    if told := warning(stolen.share()):
        console.print(told)
    same = {name: getattr(options, name) for name in ("workers", "rate", "size", "loss", "mtu", "slots")}
    keep(options.json, same, rounds)


if __name__ == "__main__":
    main()
