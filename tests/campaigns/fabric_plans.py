#!/usr/bin/env python3
"""Tries MLfabric's scheduler on many random worlds, and compares its plans with the best there are.

    tests/campaigns/fabric_plans.py --seeds 100000    # promises hold in every world: a quarter of an hour
    tests/campaigns/fabric_plans.py --solver 500      # shortest first against a mixed integer program
    tests/campaigns/fabric_plans.py --orders 500      # shortest first against all orders of up to 6 updates
    tests/campaigns/fabric_plans.py --times           # how long planning takes

The exit code is 1 if a world breaks a promise. It prints the seed.
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import random
import statistics
import sys
import time
import traceback

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "python"))  # the folder of fabric_world

from fabric_optimum import best_mean_end, mean_end, random_batch, ratio_to_solver
from fabric_world import World
from rich.progress import track

from jaxina.fabric import Calendar, Scheduler, Settings, Star, Update, shortest_first_order
from jaxina.fabric.network import Nic

GIGABIT = 125_000_000  # bytes per second


def worlds(first: int, count: int, batches: int) -> bool:
    total: collections.Counter[str] = collections.Counter()
    delay = divergence = 0.0
    for seed in track(range(first, first + count), "worlds"):
        try:
            counts = World(seed).run(batches)
        except Exception:
            traceback.print_exc()
            print(f"world {seed} breaks a promise")
            return False
        total["updates committed"] += counts.committed
        total["of them added on their way"] += counts.aggregated
        total["sent to a replica"] += counts.replicated
        total["held for a replica"] += counts.held
        total.update({f"dropped: {reason}": n for reason, n in counts.dropped.items()})
        delay, divergence = max(delay, counts.most_delay), max(divergence, counts.most_divergence)
    for what, n in total.items():
        print(f"{what}: {n:,}")
    print(
        f"{count:,} worlds, 0 failed: at most {delay:.3f} of the delay bound, {divergence:.3f} of the divergence bound"
    )
    return True


def report(what: str, ratios: list[float]) -> None:
    beyond = sum(r > 1.25 for r in ratios) / len(ratios)
    print(
        f"{what}, {len(ratios)} batches: mean end {statistics.mean(ratios):.3f} of the best on average, "
        f"{max(ratios):.3f} at most, above 1.25 in {beyond:.1%}"
    )


def ratio_to_orders(seed: int) -> float:
    network, updates = random_batch(random.Random(seed), 6)
    planned = shortest_first_order(network, Calendar(network.rates), "server", updates, 0).transfers
    return mean_end(network, "server", [t.update for t in planned]) / best_mean_end(network, "server", updates)


def times(repetitions: int) -> None:
    """As in section 7.4: half as many hosts as updates, deadlines drawn from 1 to twice their number."""
    for count in (10, 100, 500, 1000):
        taken = []
        for seed in range(repetitions):
            draw = random.Random(seed)
            hosts = [f"w{i}" for i in range(max(2, count // 2))]
            rates = [int(r * GIGABIT) for r in (1, 2.5, 3.3, 5, 10)]
            nics = {h: Nic(draw.choice(rates), draw.choice(rates)) for h in hosts}
            network = Star(nics | {"server": Nic(10 * GIGABIT, 10 * GIGABIT)})
            job = Scheduler(network, Settings("server", 2 * count, aggregators=hosts, groups=8), seed)
            for name in range(2 * count):  # so that the model has versions for the batch to be of
                job.add(Update(name, "server", 1, 0))
            job.plan(0)
            for name in range(count):
                update = Update(2 * count + name, draw.choice(hosts), 100_000_000, draw.randint(1, 2 * count), 1)
                job.add(update)
            start = time.process_time()
            job.plan(1)
            taken.append(time.process_time() - start)
        print(f"{count} updates: {1e3 * statistics.median(taken):.1f} ms (median of {repetitions}, processor time)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=0, help="how many worlds")
    parser.add_argument("--first", type=int, default=0, help="the first world's seed")
    parser.add_argument("--batches", type=int, default=12, help="batches in a world")
    parser.add_argument("--orders", type=int, default=0, help="how many batches against all orders")
    parser.add_argument("--solver", type=int, default=0, help="how many batches against the solver")
    parser.add_argument("--times", action="store_true", help="measure how long planning takes")
    arguments = parser.parse_args()
    if arguments.orders:
        report("all orders", [ratio_to_orders(seed) for seed in track(range(arguments.orders), "orders")])
    if arguments.solver:
        report("solver", [ratio_to_solver(seed) for seed in track(range(arguments.solver), "solver")])
    if arguments.times:
        times(9)
    return 0 if worlds(arguments.first, arguments.seeds, arguments.batches) else 1


if __name__ == "__main__":
    sys.exit(main())
