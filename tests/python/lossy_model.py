#!/usr/bin/env python3
"""A job's workers around the chip's model, which runs the compiled program and loses packets inside.

    tests/python/lossy_model.py --model HARNESS --compiled build/p4/one-pipe --traffics 20

This is `busy_chip.py` for the model: random traffics over UDP and RDMA, in which the chip loses packets between its
pipes and copies for the workers, and workers lose results and repeat updates. One packet is in the chip at a time. Each
sum that a worker takes must be exact, and each worker must get all sums. Each traffic has a model of its own. The exit
code is 1 if that did not hold, or if the chip lost nothing.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "p4"))

from busy_chip import LOSSES, PASSES, RDMA_MTU, SLOTS, WORKERS, Switch, Workers
from conformance.devices.compiled import Compiled
from conformance.devices.harness import HarnessError
from conformance.devices.interpreter import ChipLink
from conformance.devices.model_tables import ModelTables
from conformance.generate import WORDS

from jaxina.controller.chip import SIZES

_MOST_PACKETS = 1000  # that the workers of a traffic send


def traffic(switch, chance, passes=PASSES):
    """Runs a job of the switch until all workers have all sums. Returns how many packets the workers have sent.

    Raises:
      AssertionError: a sum is wrong, or the workers do not get all sums.
    """
    workers, sent = Workers(switch, chance, passes), 0
    while min(workers.epochs.values()) < passes and sent < _MOST_PACKETS:
        workers.send()
        workers.receive()
        sent += 1
    assert set(workers.epochs.values()) == {passes}, f"no progress: the workers' passes are {workers.epochs}"
    return sent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, metavar="HARNESS", help="the packet test harness")
    parser.add_argument("--compiled", type=Path, required=True, metavar="FOLDER", help="named after the program's size")
    parser.add_argument("--traffics", type=int, default=20, help="at most")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no traffic after so long")
    parser.add_argument("--seed", type=int, default=1, help="of the first traffic; the next has the next")
    options = parser.parse_args()
    if (size := options.compiled.resolve().name) not in WORDS:
        parser.error(f"--compiled must name a folder {', '.join(WORDS)}")
    failed = lost = sent = done = 0
    program = Compiled(options.compiled.resolve())
    began = time.monotonic()
    for seed in range(options.seed, options.seed + options.traffics):
        if time.monotonic() - began > options.seconds:
            break
        done += 1
        chance = random.Random(seed)
        mtu, losses = RDMA_MTU * (seed % 2), math.exp(chance.uniform(*map(math.log, LOSSES)))
        link = ChipLink(ModelTables(options.model.resolve(), program, SIZES[size]))
        switch = Switch(size, mtu, None, link, chance.randint(1, WORKERS), chance.randint(1, SLOTS))
        try:
            switch.tables.lose(losses, seed)
            sent += traffic(switch, chance, passes=chance.randint(2, PASSES))
        except (AssertionError, HarnessError) as error:
            failed += 1
            print(f"seed {seed}, {size}, {'rdma' if mtu else 'udp'}, losses {losses:.4f}: {error}", flush=True)
        lost += switch.tables.lost
        switch.plane.stop()
    print(f"{done} traffics, {sent} packets sent, {lost} lost in the chip, {failed} traffics failed")
    return failed > 0 or not lost


if __name__ == "__main__":
    sys.exit(main())
