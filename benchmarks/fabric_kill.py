#!/usr/bin/env python3
"""Trains `examples/unequal_links` again and again, with its server killed on the way and without, and compares.

    benchmarks/fabric_kill.py --seeds 5 --updates 480 --kill 160

For each seed: the accuracy of both runs, their difference, and how soon after the kill the replica gave its model. The
accuracy is the mean of the last five that the example prints, one a second: a single one moves by half a point.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

EXAMPLE = Path(__file__).resolve().parents[1] / "examples/unequal_links/train.py"
LAST = 5  # accuracies


def run(options: argparse.Namespace, seed: int, kill: bool) -> tuple[float, float | None, int]:
    """Trains once. Returns the accuracy in percent, the seconds until the replica served, and the updates lost."""
    command = [sys.executable, EXAMPLE, "--replica", "--seed", seed, "--updates", options.updates]
    command += ["--rate", options.rate, "--server-rate", options.server_rate, "--workers", options.workers]
    command += ["--kill-server", options.kill] if kill else []
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    accuracies = [float(found) for found in re.findall(r"^ *[\d.]+ +\d+ +([\d.]+) %$", done.stdout, re.MULTILINE)]
    served = re.search(r"the replica serves, ([\d.]+) s later", done.stdout)
    (committed,) = re.findall(r"(\d+) updates committed", done.stdout)
    lost = max(0, options.updates - int(committed))
    return statistics.mean(accuracies[-LAST:]), None if served is None else float(served[1]), lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--updates", type=int, default=480)
    parser.add_argument("--kill", type=int, default=160, help="kill the server after so many updates")
    parser.add_argument("--rate", type=float, default=20, help="megabits per second of a worker's full link")
    parser.add_argument("--server-rate", type=float, default=80, help="megabits per second of the models' links")
    options = parser.parse_args()
    table = Table("seed", "not killed", "killed", "difference", "the replica served after", "updates lost")
    differences = []
    for seed in track(range(options.first, options.first + options.seeds), "seeds"):
        whole, _, _ = run(options, seed, False)
        killed, served, lost = run(options, seed, True)
        if served is None:
            raise SystemExit(f"seed {seed}: the training was over before the server was killed")
        differences.append(killed - whole)
        table.add_row(
            str(seed), f"{whole:.1f} %", f"{killed:.1f} %", f"{differences[-1]:+.1f}", f"{served:.1f} s", str(lost)
        )
        Console().print(f"seed {seed}: {whole:.2f} {killed:.2f} {served:.1f} s, {lost} lost")
    Console(width=100).print(table)
    print(f"mean difference {statistics.mean(differences):+.2f} points", end="")
    if len(differences) > 1:
        error = statistics.stdev(differences) / math.sqrt(len(differences))
        print(f" (standard error {error:.2f}); the greatest {max(map(abs, differences)):.1f}")


if __name__ == "__main__":
    main()
