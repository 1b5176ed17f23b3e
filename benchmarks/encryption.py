#!/usr/bin/env python3
"""Compares all-reduces with encrypted packets and without, by turns.

    .venv/bin/python benchmarks/encryption.py -n 2 -b 100K -e 12.5M -f 5 --rounds 5 --aggregator udp
    .venv/bin/python benchmarks/encryption.py -n 2 -b 12.5M -e 12.5M --rounds 5 --rate 1000

Each turn is a run of `jaxina bench`, which checks every result; both kinds use TLS for control calls, with certificates
of an authority that is made for this comparison. Prints for each size the medians over the rounds of the runs' medians,
how many times the throughput with encryption is that without (median, least and most of the pairs), and the share of
time that the machine's host gave to others. With --rate, workers and switch are on links of so many Mbit/s: it makes a
testbed (`jaxina testbed`), removes it afterwards, and needs root.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from jaxina import _native, testbed
from jaxina.bench.stolen_time import StolenTime

AUTHORITY = """
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=bench" -keyout authority.key \\
  -out authority.pem
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=worker" -keyout worker.key -out worker.csr
printf 'subjectAltName=DNS:jaxina\\n' > names
openssl x509 -req -in worker.csr -CA authority.pem -CAkey authority.key -days 2 -extfile names -out worker.pem
"""
Times = dict[int, float]  # ms, by size in bytes


def certificates(folder: Path) -> dict[str, str]:
    """The settings of a process with a certificate of a new authority (docs/networks.md)."""
    subprocess.run(["bash", "-e", "-c", AUTHORITY], cwd=folder, check=True, capture_output=True)
    files = {"AUTHORITY": "authority.pem", "CERTIFICATE": "worker.pem", "KEY": "worker.key"}
    return {f"JAXINA_TLS_{name}": str(folder / file) for name, file in files.items()}


def times(options: argparse.Namespace, folder: Path, encryption: str) -> Times:
    found = folder / "times.json"
    on_links = ["testbed", "run"] if options.rate else []
    command = [sys.executable, "-m", "jaxina.cli", *on_links, "bench", "-n", options.workers, "-b", options.begin]
    command += ["-e", options.end, "-f", options.factor, "--aggregator", options.aggregator, "--json", found]
    command += ["-i", options.iterations] if options.iterations else []
    environment = {**os.environ, **certificates(folder), "JAXINA_ENCRYPTION": encryption}
    subprocess.run(list(map(str, command)), env=environment, check=True, stdout=subprocess.DEVNULL)
    records = json.loads(found.read_text())["records"]
    return {record["bytes"]: record["results"]["jaxina"]["median_ms"] for record in records}


def measure(options: argparse.Namespace) -> dict[str, list[Times]]:
    rounds: dict[str, list[Times]] = {"no": [], "yes": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            for encryption in list(rounds)[:: 1 if number % 2 == 0 else -1]:
                rounds[encryption].append(times(options, Path(folder), encryption))
            print(f"{number + 1} of {options.rounds}", end="\r", file=sys.stderr)
    return rounds


def table(rounds: dict[str, list[Times]], title: str) -> Table:
    made = Table(title=title, box=box.SIMPLE_HEAD)
    for heading in ("bytes", "in the clear, ms", "encrypted, ms", "throughput encrypted / in the clear"):
        made.add_column(heading, justify="right")
    for size in rounds["no"][0]:
        clear, encrypted = ([one[size] for one in rounds[name]] for name in ("no", "yes"))
        ratios = [one / other for one, other in zip(clear, encrypted, strict=True)]
        made.add_row(
            f"{size:,}",
            f"{statistics.median(clear):.3g}",
            f"{statistics.median(encrypted):.3g}",
            f"{statistics.median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f})",
        )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", dest="workers", type=int, default=2)
    parser.add_argument("-b", dest="begin", default="100K", help="smallest size")
    parser.add_argument("-e", dest="end", default="12.5M", help="largest size")
    parser.add_argument("-f", dest="factor", type=float, default=5.0, help="from one size to the next")
    parser.add_argument("-i", dest="iterations", type=int, help="timed calls per size and run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--aggregator", choices=("udp", "direct"), default="udp")
    parser.add_argument("--rate", type=int, help="Mbit/s of each link of a testbed; without, on loopback")
    options = parser.parse_args()
    stolen = StolenTime()
    if options.rate:
        testbed.up(testbed.Size(options.workers), testbed.Link(options.rate))
    try:
        rounds = measure(options)
    finally:
        if options.rate:
            testbed.down()
    where = f"links of {options.rate} Mbit/s" if options.rate else "loopback"
    title = f"{options.workers} workers, {options.aggregator}, {where}, {_native.encryption_availability()}"
    Console().print(table(rounds, title))
    print(f"{stolen.share():.1%} of the wanted processor time was stolen")


if __name__ == "__main__":
    main()
