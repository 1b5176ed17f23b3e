#!/usr/bin/env python3
"""Measures aggregator "atp" on shaped links: a switch that combines updates on their way to servers.

    apt-get install iproute2 ethtool
    benchmarks/testbed/atp.py --workers 4 --rate 200 --json out/atp.json

It needs root, because it makes a testbed (`jaxina testbed`), and removes it afterwards. The cases are all-reduces of
float32 over udp, over direct, and over atp:

* with a host of its own as the server, while the switch sends a share f of the passes on without combining them. By
  the model, the share of the link is 1 / (1 + (n - 1) f): the server's link carries n packets of such a pass. With
  "marks", the switch knows the links' rate and marks packets;
* with servers in the workers, and one or two switches that have a worker's link each. That link is the limit. Each
  way, it carries n packets between the switch and the workers and one between the switch and the server. So by the
  model, the share of the link is k / (n + 1) for k switches.

Every case is measured together with gloo, in the same JAX processes (`jaxina bench --vs gloo`), and Open MPI once in
each round. Every result is compared with the exact sum.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import open_mpi
from compare import bench_records, keep, link_limit_ms, spread
from rich import box
from rich.console import Console
from rich.table import Table
from switch_process import switch_at

from jaxina import testbed
from jaxina.bench.stolen_time import StolenTime, warning

OPEN_MPI = "Open MPI, TCP"
EXTRA_HOSTS = 2  # beside the workers: for a server, or for switches on a worker's link


@dataclasses.dataclass(frozen=True)
class Case:
    """What is measured.

    Attributes:
      name: for the table.
      aggregator: of `jaxina bench`.
      forward: the share of passes that the switch sends on.
      server: whether a host of its own is the server.
      slow_switches: how many switches with a worker's link combine, instead of one with all workers' rates together.
      marks: whether the switch knows the rate of the links, and so marks packets.
    """

    name: str
    aggregator: str
    forward: float = 0.0
    server: bool = False
    slow_switches: int = 0
    marks: bool = False

    def model(self, workers: int) -> float | None:
        """The share of a worker's link that the model gives."""
        if self.server:
            return 1 / (1 + (workers - 1) * self.forward)
        if self.slow_switches:
            return self.slow_switches / (workers + 1)
        return workers / (2 * (workers - 1)) if self.aggregator == "direct" else None


CASES = (
    Case("udp", "udp"),
    Case("direct", "direct"),
    Case("atp, f = 0", "atp", server=True),
    Case("atp, f = 1/4", "atp", 0.25, server=True),
    Case("atp, f = 1/2", "atp", 0.5, server=True),
    Case("atp, f = 1", "atp", 1.0, server=True),
    Case("atp, f = 0, marks", "atp", server=True, marks=True),
    Case("atp, f = 1/2, marks", "atp", 0.5, server=True, marks=True),
    Case("atp, f = 1, marks", "atp", 1.0, server=True, marks=True),
    Case("atp, 1 slow switch", "atp", slow_switches=1),
    Case("atp, 2 slow switches", "atp", slow_switches=2),
)


def measure(case: Case, bed: testbed.Testbed, options: argparse.Namespace) -> dict[str, float]:
    """The medians of jaxina and of gloo, in ms; and the share of worker 0's packets that it sent again."""
    extra = [(bed.worker_namespace(options.workers + i), bed.worker_host(options.workers + i)) for i in range(2)]
    with contextlib.ExitStack() as stack:
        settings: dict[str, str] = {}
        bench: list[object] = ["-n", options.workers, "-b", options.size, "-e", options.size, "-i", options.iterations]
        if case.server:
            settings["JAXINA_SERVERS"] = stack.enter_context(switch_at(*extra[0]))
        if case.aggregator == "atp":
            places = extra[: case.slow_switches] or [(bed.switch_namespace, bed.switch_host)]
            how = ("--forward", case.forward, *(("--port-rate", options.rate) if case.marks else ()))
            switches = [stack.enter_context(switch_at(*place, *how)) for place in places]
            bench += ["--switch", ",".join(switches)]
        stack.enter_context(mock.patch.dict(os.environ, settings))
        (record,) = bench_records(case.aggregator, *bench)
    medians = {name: result["median_ms"] for name, result in record["results"].items()}
    return {**medians, "again": record["engine"]["retransmissions"] / record["engine"]["packets_sent"]}


def chosen(options: argparse.Namespace) -> list[Case]:
    """The cases to measure. udp is one of them, because the others are compared with it."""
    return [case for case in CASES if not options.only or case.name in ("udp", *options.only)]


def table(rounds: Sequence[dict[str, dict[str, float]]], limit: float, options: argparse.Namespace) -> Table:
    made = Table(
        title=f"{options.workers} workers, links of {options.rate} Mbit/s, {options.size:,} bytes; median and range",
        box=box.SIMPLE_HEAD,
    )
    for heading in ("", "ms", "of the link", "model", "of the model", "udp / this", "gloo / this", "sent again, %"):
        made.add_column(heading, justify="right" if heading else "left")
    for case in chosen(options):
        found = [one[case.name] for one in rounds]
        model = case.model(options.workers)
        made.add_row(
            case.name,
            spread([ms["jaxina"] for ms in found], 0),
            spread([limit / ms["jaxina"] for ms in found]),
            f"{model:.2f}" if model else "",
            spread([limit / ms["jaxina"] / model for ms in found]) if model else "",
            spread([one["udp"]["jaxina"] / one[case.name]["jaxina"] for one in rounds]),
            spread([ms["gloo"] / ms["jaxina"] for ms in found]),
            spread([100 * one["again"] for one in found]),
        )
    if OPEN_MPI in rounds[0]:
        times = [one[OPEN_MPI]["jaxina"] for one in rounds]
        ratios = spread([one["udp"]["jaxina"] / one[OPEN_MPI]["jaxina"] for one in rounds])
        made.add_row(OPEN_MPI, spread(times, 0), spread([limit / time for time in times]), "", "", ratios, "", "")
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rate", type=int, default=200, help="Mbit/s of a worker's link")
    parser.add_argument("--size", type=int, default=20_000_000, help="bytes")
    parser.add_argument("-i", "--iterations", type=int, default=5, help="calls per peer and round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=[case.name for case in CASES], help="measure these cases and udp")
    parser.add_argument("--without-open-mpi", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    stolen = StolenTime()
    bed = testbed.up(testbed.Size(options.workers + EXTRA_HOSTS), testbed.Link(options.rate))
    try:
        rounds = []
        for number in range(options.rounds):
            rounds.append({})
            for case in chosen(options):
                rounds[-1][case.name] = measure(case, bed, options)
                print(f"round {number + 1}, {case.name}: {rounds[-1][case.name]}", file=sys.stderr, flush=True)
            if not options.without_open_mpi:
                time = open_mpi.all_reduce_ms(options.workers, options.size, options.iterations)
                rounds[-1][OPEN_MPI] = {"jaxina": time}
    finally:
        testbed.down()
    console = Console(width=120)
    console.print(table(rounds, link_limit_ms(options.size, options.rate), options))
    if told := warning(stolen.share()):
        console.print(told)
    same = {name: getattr(options, name) for name in ("workers", "rate", "size", "iterations")}
    keep(options.json, same, rounds)


if __name__ == "__main__":
    main()
