#!/usr/bin/env python3
"""Compares all-reduces of float32 by jaxina, XLA's gloo and Open MPI on this host. They take turns, round after round.

    sudo apt-get install openmpi-bin; pip install mpi4py
    benchmarks/all_reduce/compare.py -n 2 --json out/compare-2.json --plot out/compare-2.png

jaxina and gloo are psums in the same JAX processes (`jaxina bench --vs gloo`). malloc in these processes keeps freed
memory (JAXINA_KEEP_MEMORY). "gloo, plain" is gloo without that setting, as a user without jaxina has it. Open MPI is
Allreduce of NumPy arrays, without JAX, into a buffer that is used again, over shared memory and over TCP. Every result
is compared with the exact sum. A figure is the median of the rounds' medians. Ratios are taken within each round, and
the table shows their range.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from jaxina.bench.report import environment
from jaxina.bench.sizes import parse_size, size_text
from jaxina.bench.stolen_time import StolenTime, warning

WORKER = Path(__file__).with_name("openmpi_worker.py")
LIMIT_S = 900
WARM_UP = "5"  # calls before the timed ones, as many as `jaxina bench` makes
# Peer -> Open MPI's byte transfer layers.
OPEN_MPI = {"Open MPI, memory": "self,vader", "Open MPI, TCP": "self,tcp"}
Round = dict[str, dict[int, float]]  # peer -> bytes -> median of its calls, ms


def through_jax(ranks: int, sizes: list[int], iterations: int, extra: list[str], keep_memory: bool) -> Round:
    found: Round = {"jaxina": {}, "gloo": {}}
    variables = {**os.environ, "JAXINA_KEEP_MEMORY": "yes" if keep_memory else "no"}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "bench.json"
            command = [sys.executable, "-m", "jaxina.cli", "bench", "-n", str(ranks), "-b", str(size), "-e", str(size)]
            command += ["-i", str(iterations), "--vs", "gloo", "--json", str(file), *extra]
            _run(command, variables)
            (record,) = json.loads(file.read_text())["records"]
        for name, result in record["results"].items():
            found[name][size] = result["median_ms"]
    return found


def through_open_mpi(ranks: int, sizes: list[int], iterations: int, layers: str) -> dict[int, float]:
    command = ["mpirun", "-n", str(ranks), "--oversubscribe", "--allow-run-as-root", "--mca", "btl", layers]
    if ranks > (_cores() or 1):
        command += ["--mca", "mpi_yield_when_idle", "1"]  # otherwise waiting ranks spin on cores that others need
    lines = _run([*command, sys.executable, str(WORKER), json.dumps(sizes), str(iterations), WARM_UP]).splitlines()
    records = [json.loads(line) for line in lines if line.startswith("{")]
    return {record["bytes"]: statistics.median(record["times_ms"]) for record in records}


def _cores() -> int:
    return environment()["machine"]["cores"]


def _run(command: list[str], variables: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def table(rounds: list[Round], sizes: list[int], title: str) -> Table:
    made = Table(
        title=title, box=box.SIMPLE_HEAD, caption="ms; below: the ratio to jaxina's time (its range over the rounds)"
    )
    peers = list(rounds[0])
    for heading in ("size", *peers):
        made.add_column(heading, justify="right", no_wrap=True)
    for size in sizes:
        row = [size_text(size)]
        for peer in peers:
            cell = f"{statistics.median(r[peer][size] for r in rounds):.3f}"
            if peer != "jaxina":
                ratios = sorted(r[peer][size] / r["jaxina"][size] for r in rounds)
                cell += f"\n{statistics.median(ratios):.2f} ({ratios[0]:.2f} - {ratios[-1]:.2f})"
            row.append(cell)
        made.add_row(*row)
    return made


def plot(rounds: list[Round], sizes: list[int], title: str, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5))
    for peer in rounds[0]:
        of_peer = [[r[peer][size] for r in rounds] for size in sizes]
        (line,) = axes.plot(sizes, [statistics.median(t) for t in of_peer], marker="o", label=peer)
        axes.fill_between(
            sizes, [min(t) for t in of_peer], [max(t) for t in of_peer], color=line.get_color(), alpha=0.2
        )
    axes.set(xscale="log", yscale="log", xlabel="bytes", ylabel="ms (median of rounds, and their range)", title=title)
    axes.grid(True, which="major", alpha=0.4)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--workers", type=int, required=True)
    parser.add_argument("--sizes", nargs="+", default=["4K", "64K", "1M", "4M", "16M", "100M"])
    parser.add_argument("-i", "--iterations", type=int, default=20, help="calls per peer, size and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("bench_options", nargs="*", help="options of jaxina bench, after --: -- --aggregator udp")
    options = parser.parse_args()
    if shutil.which("mpirun") is None:
        sys.exit("mpirun is not there: install Debian's openmpi-bin and Python's mpi4py")
    sizes = [parse_size(text) for text in options.sizes]

    console, rounds, around, stolen = Console(width=110), [], environment(), StolenTime()
    for number in range(options.rounds):
        console.print(f"round {number + 1} of {options.rounds}", style="dim")
        found = through_jax(options.workers, sizes, options.iterations, options.bench_options, True)
        found["gloo, plain"] = through_jax(options.workers, sizes, options.iterations, options.bench_options, False)[
            "gloo"
        ]
        for peer, layers in OPEN_MPI.items():
            found[peer] = through_open_mpi(options.workers, sizes, options.iterations, layers)
        rounds.append(found)
    title = f"all-reduce of float32 over {options.workers} workers"
    console.print(table(rounds, sizes, title))
    around["stolen"] = stolen.share()
    if told := warning(around["stolen"]):
        console.print(told)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(
            json.dumps({**around, "options": vars(options), "rounds": rounds}, default=str, indent=2)
        )
    if options.plot:
        plot(rounds, sizes, title, options.plot)


if __name__ == "__main__":
    main()
