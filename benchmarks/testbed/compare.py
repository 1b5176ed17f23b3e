#!/usr/bin/env python3
"""Compares all-reduces of float32 on shaped links by jaxina over udp, XLA's gloo, and Open MPI over TCP, by turns.

    apt-get install iproute2 ethtool openmpi-bin; pip install mpi4py
    benchmarks/testbed/compare.py --workers 4 8 --loss 0 1e-9 0.001 0.01 --json out/testbed.json --plot out/testbed.png

It needs root, because it makes a testbed (`jaxina testbed`) for every number of workers and every loss, and removes it
afterwards. jaxina and gloo are psums in the same JAX processes (`jaxina bench --vs gloo`). Open MPI is Allreduce of
NumPy arrays without JAX, with each rank in a namespace of its own. Every result is compared with the exact sum. A
figure is the median of the rounds' medians. Ratios are taken within a round. Rounds are added to those that the JSON
file already holds.

Links that lose packets take packets one by one, without the kernel's offloads, which costs processor time. A loss of
1e-9 loses nothing in practice, but takes packets one by one, too. Comparing with it shows what loss itself costs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import open_mpi
from rich import box
from rich.console import Console
from rich.table import Table

from jaxina import _native, testbed
from jaxina.bench.report import environment
from jaxina.bench.stolen_time import StolenTime, warning

LIMIT_S = 900
ONE_BY_ONE = 1e-9
_BLOCK = 256
_IP_UDP_ETHERNET = 20 + 8 + 14  # what the shaper counts: no preamble, no checksum, no gap
# "workers"; "loss"; "stolen", the share of processor time that the host gave away; "ms", each peer's median.
Round = dict


def link_limit_ms(size: int, rate: int, bits: int = 32) -> float:
    """Returns how long a worker's link takes for `size` bytes of float32 in jaxina's packets, with all headers.

    A packet has 1024 bytes of words, of `bits` bits each.
    """
    packets = size / (4 * _BLOCK) * bits / 32
    exponents = 4  # up to four bytes, padded
    seed = 0 if bits == 32 else 8
    frame = 4 * _BLOCK + exponents + seed + _native.HEADER_BYTES + _IP_UDP_ETHERNET
    return packets * frame * 8 / (rate * 1e3)


def keep(file: Path | None, same: dict, rounds: object) -> None:
    """Writes the rounds to a JSON file, if one is wanted, with what was the `same` in all of them and the machine."""
    if file is None:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({**environment(), **same, "rounds": rounds}, indent=2) + "\n")


def bench_records(aggregator: str, *options: object) -> list[dict]:
    """Runs `jaxina bench` with these options beside gloo, in the testbed that is up, and returns its records."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.json"
        command = [sys.executable, "-m", "jaxina.cli", "testbed", "run", "bench", *options, "-w", 2]
        run([*command, "--aggregator", aggregator, "--vs", "gloo", "--json", file])
        return json.loads(file.read_text())["records"]


def through_jax(workers: int, options: argparse.Namespace) -> dict[str, float]:
    (record,) = bench_records("udp", "-n", workers, "-b", options.size, "-e", options.size, "-i", options.iterations)
    return {name: result["median_ms"] for name, result in record["results"].items()}


def run(command: list) -> str:
    command = [str(part) for part in command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done.stdout


def measure(workers: int, loss: float, options: argparse.Namespace) -> Round:
    stolen = StolenTime()
    testbed.up(testbed.Size(workers), testbed.Link(options.rate, loss))
    try:
        found = through_jax(workers, options)
        if not options.without_open_mpi:
            found["Open MPI, TCP"] = open_mpi.all_reduce_ms(workers, options.size, options.iterations)
    finally:
        testbed.down()
    return {"workers": workers, "loss": loss, "stolen": stolen.share(), "ms": found}


def spread(values: list[float], digits: int = 2) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f}" if len(values) == 1 else f"{middle:.{digits}f} ({low:.{digits}f} - {high:.{digits}f})"


def cases(rounds: list[Round]) -> dict[tuple[int, float], list[Round]]:
    keys = sorted({(r["workers"], r["loss"]) for r in rounds})
    return {key: [r for r in rounds if (r["workers"], r["loss"]) == key] for key in keys}


def ratios(rounds: list[Round], value: Callable[[Round], float | None]) -> str:
    found = [v for v in map(value, rounds) if v is not None]
    return spread(found) if found else ""


def name_of(loss: float) -> str:
    return "none" if loss == ONE_BY_ONE else f"{100 * loss:g} %"


def table(rounds: list[Round], limit: float, title: str) -> Table:
    caption = (
        f"Times in ms; in brackets, their range over the rounds. The links allow {limit:.0f} ms. "
        "x: the ratio to jaxina's time. x 0, x none: the ratio of jaxina's time to that without loss; "
        "none is for links that lose nothing but take packets one by one."
    )
    made = Table(title=title, box=box.SIMPLE_HEAD, caption=caption)
    for heading in ("workers", "loss", "jaxina", "of the link", "x 0", "x none", "gloo", "x", "Open MPI, TCP", "x"):
        made.add_column(heading, justify="right")
    found = cases(rounds)
    for (workers, loss), group in found.items():
        jaxina = [r["ms"]["jaxina"] for r in group]
        row = [str(workers), name_of(loss), spread(jaxina, 0), ratios(group, lambda r: limit / r["ms"]["jaxina"])]
        for base in (0.0, ONE_BY_ONE):
            clean = [r["ms"]["jaxina"] for r in found.get((workers, base), [])]
            row.append(spread([t / statistics.median(clean) for t in jaxina]) if clean else "")
        for peer in ("gloo", "Open MPI, TCP"):
            there = [r for r in group if peer in r["ms"]]
            row.append(spread([r["ms"][peer] for r in there], 0) if there else "")
            row.append(ratios(there, lambda r, peer=peer: r["ms"][peer] / r["ms"]["jaxina"]))
        made.add_row(*row)
    return made


def plot(rounds: list[Round], limit: float, title: str, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = cases(rounds)
    counts = sorted({workers for workers, _ in found})
    figure, all_axes = plt.subplots(1, len(counts), figsize=(5 * len(counts), 4), sharey=True, squeeze=False)
    for axes, workers in zip(all_axes[0], counts, strict=True):
        losses = [loss for n, loss in found if n == workers]
        for number, peer in enumerate(("jaxina", "gloo", "Open MPI, TCP")):
            times = [[r["ms"][peer] for r in found[workers, loss] if peer in r["ms"]] for loss in losses]
            if not all(times):
                continue
            middle = [statistics.median(t) for t in times]
            error = [
                [m - min(t) for m, t in zip(middle, times, strict=True)],
                [max(t) - m for m, t in zip(middle, times, strict=True)],
            ]
            places = [place + 0.27 * (number - 1) for place in range(len(losses))]
            axes.bar(places, middle, 0.25, yerr=error, capsize=3, label=peer)
        axes.axhline(limit, color="black", linewidth=1, linestyle=":", label="link")
        axes.set(yscale="log", title=f"{workers} workers", xlabel="loss on every link, each way")
        axes.set_xticks(range(len(losses)), [name_of(loss) for loss in losses])
    all_axes[0][0].set_ylabel("ms (median of rounds, and their range)")
    all_axes[0][0].legend()
    figure.suptitle(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", nargs="+", type=int, default=[4, 8])
    parser.add_argument(
        "--loss",
        nargs="+",
        type=float,
        default=[0.0, ONE_BY_ONE, 0.001, 0.01],
        help="share of packets that a link loses in each direction",
    )
    parser.add_argument("--rate", type=int, default=1000, help="Mbit/s of a worker's link")
    parser.add_argument("--size", type=int, default=100_000_000, help="bytes of the tensor")
    parser.add_argument("-i", "--iterations", type=int, default=5, help="calls per peer and round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--without-open-mpi", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    if not options.without_open_mpi:
        open_mpi.require()

    around, console = environment(), Console(width=130)
    rounds: list[Round] = []
    same = {"size": options.size, "rate": options.rate, "iterations": options.iterations}
    if options.json and options.json.exists():
        held = json.loads(options.json.read_text())
        if held["options"] != same:
            sys.exit(f"{options.json} holds figures of other options: {held['options']}, not {same}")
        rounds = held["rounds"]
    for number in range(options.rounds):
        for workers in options.workers:
            for loss in options.loss:
                console.print(
                    f"round {number + 1} of {options.rounds}: {workers} workers, loss {name_of(loss)}", style="dim"
                )
                rounds.append(measure(workers, loss, options))
                if options.json:
                    options.json.parent.mkdir(parents=True, exist_ok=True)
                    options.json.write_text(json.dumps({**around, "options": same, "rounds": rounds}, indent=2) + "\n")
    title = f"all-reduce of {options.size / 1e6:g} MB of float32 on links of {options.rate} Mbit/s"
    limit = link_limit_ms(options.size, options.rate)
    console.print(table(rounds, limit, title))
    if told := warning(max(r["stolen"] for r in rounds)):
        console.print(f"in the worst of {len(rounds)} rounds, {told}")
    if options.plot:
        plot(rounds, limit, title, options.plot)


if __name__ == "__main__":
    main()
