#!/usr/bin/env python3
"""Tries MLfabric's service in many random worlds: its cores in virtual time, with late and repeated frames and deaths.

    tests/campaigns/fabric_service_worlds.py --seeds 10000

Checked in each: an update counts once or not at all, and its worker learns which; server and replica commit in the
same order; what would be lost with the server is at most the estimate, and that is within the bound; every delay is
below its bound; nothing is left waiting. In every fourth world, workers give up sending some updates to the replica.
The exit code is 1 if a world breaks a promise. It prints the seed.
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import sys
import traceback

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "python"))  # the folder of fabric_service_world

from fabric_service_world import World
from rich.progress import track

from jaxina.fabric.service import fabric_pb2 as pb


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1000, help="how many worlds")
    parser.add_argument("--first", type=int, default=0, help="the first world's seed")
    parser.add_argument("--seconds", type=float, default=15, help="for how long workers submit, in virtual time")
    arguments = parser.parse_args()
    total: collections.Counter[str] = collections.Counter()
    divergence = delay = 0.0
    for seed in track(range(arguments.first, arguments.first + arguments.seeds), "worlds"):
        world = World(seed, gives_up=seed % 4 == 3)
        try:
            world.run(arguments.seconds)
            assert world.job.greatest_delay < world.settings.delay_bound, "an update is too old"
        except Exception:
            traceback.print_exc()
            print(f"world {seed} breaks a promise")
            return 1
        total["updates"] += len(world.updates)
        total["of them committed"] += sum(told.committed for told in world.told.values())
        total["lost on their way"] += world.job.lost
        total["added on their way"] += world.job.added
        total["workers that died"] += sum(world.hosts[n].host.role == pb.WORKER for n in world.dead)
        total["of them with others' updates"] += world.aggregators_died
        total["servers that died, and the replica took over"] += world.job.carrier.server == "replica"
        delay = max(delay, (world.job.greatest_delay + 1) / world.settings.delay_bound)
        divergence = max(divergence, world.most_divergence)
    for what, n in total.items():
        print(f"{what}: {n:,}")
    print(
        f"{arguments.seeds:,} worlds, 0 failed: at most {delay:.3f} of the delay bound, "
        f"{divergence:.3f} of the divergence bound"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
