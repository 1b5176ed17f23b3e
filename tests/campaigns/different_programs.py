#!/usr/bin/env python3
"""Runs random pairs of programs, one in each of two processes, and checks that only equal programs are summed.

    tests/campaigns/different_programs.py                          # 1,000 pairs that differ, 10,000 that are equal
    tests/campaigns/different_programs.py --differ 20 --equal 50   # quick

If the two programs differ in one operation, both processes must get a MismatchError. If they are equal, none may get
one. The exit code is 1 if any pair got something else. A pair that differs ends its job, so the next pair has a new
job.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxina
from jaxina._jax_compat import distributed

ELEMENTS = 64
PATIENCE = 120_000  # ms that a process waits for the other one
PLAIN: dict[str, Callable[[Any], Any]] = {
    "sin": jnp.sin,
    "tanh": jnp.tanh,
    "square": jnp.square,
    "negative": jnp.negative,
    "cumsum": jnp.cumsum,
    "flip": jnp.flip,
    "sort": jnp.sort,
    "psum": lambda x: lax.psum(x, "w"),
    "pmean": lambda x: lax.pmean(x, "w"),
}
WITH_NUMBER: dict[str, Callable[[Any, int], Any]] = {
    "add": lambda x, number: x + number,
    "times": lambda x, number: x * number,
    "roll": jnp.roll,
}
Step = tuple[str, int]  # an operation and its number, which is 0 if the operation has none


def random_step(rng: random.Random) -> Step:
    name = rng.choice([*PLAIN, *WITH_NUMBER])
    return name, rng.randint(2, 40) if name in WITH_NUMBER else 0


def random_program(rng: random.Random) -> list[Step]:
    steps = [random_step(rng) for _ in range(rng.randint(2, 8))]
    steps.insert(rng.randint(0, len(steps)), ("psum", 0))
    return steps


def changed(steps: list[Step], rng: random.Random) -> list[Step]:
    """Returns the program with one change: an operation or its number is replaced, an operation is added or removed, or
    two operations are swapped. The result has at least one psum or pmean."""
    while True:
        other, place = list(steps), rng.randrange(len(steps))
        how = rng.choice(("replace", "number", "insert", "remove", "swap"))
        if how == "replace":
            other[place] = random_step(rng)
        elif how == "number" and other[place][0] in WITH_NUMBER:
            other[place] = (other[place][0], rng.randint(2, 40))
        elif how == "insert":
            other.insert(place, random_step(rng))
        elif how == "remove":
            del other[place]
        elif how == "swap" and place:
            other[place - 1], other[place] = other[place], other[place - 1]
        if other != steps and any(name in ("psum", "pmean") for name, _ in other):
            return other


def compiled(steps: list[Step], mesh: jax.sharding.Mesh) -> Callable[[Any], Any]:
    def program(x: Any) -> Any:
        for name, number in steps:
            x = WITH_NUMBER[name](x, number) if name in WITH_NUMBER else PLAIN[name](x)
        return x

    return jax.jit(jax.shard_map(program, mesh=mesh, in_specs=P("w"), out_specs=P("w"), check_vma=False))


class Worker:
    """One of the two processes."""

    def __init__(self) -> None:
        with jaxina.init():
            pass  # joins the other process, so that JAX sees all devices
        self.mesh = jax.make_mesh((jax.device_count(),), ("w",), axis_types=(AxisType.Auto,))
        rows = np.linspace(-1, 1, 2 * ELEMENTS, dtype=np.float32)
        self.x = jax.make_array_from_callback(rows.shape, NamedSharding(self.mesh, P("w")), lambda index: rows[index])
        self.rank = jax.process_index()

    def told(self, steps: list[Step]) -> str:
        """Runs a program. Returns the name of its error, or "a sum"."""
        try:
            with jaxina.errors.typed():
                jax.block_until_ready(compiled(steps, self.mesh)(self.x))
        except jaxina.errors.JaxinaError as error:
            return type(error).__name__
        return "a sum"

    def differ(self, pairs: range) -> collections.Counter[str]:
        counts: collections.Counter[str] = collections.Counter()
        for seed in pairs:
            rng = random.Random(seed)
            steps = random_program(rng)
            mine = (steps, changed(steps, rng))[self.rank]
            with jaxina.init(timeout=60):
                counts[self.told(mine)] += 1
                # The other process would take one that leaves early for a lost worker.
                distributed.client().wait_at_barrier(f"differ {seed}", PATIENCE)
            self._forget(seed)
        return counts

    def equal(self, pairs: range) -> collections.Counter[str]:
        counts: collections.Counter[str] = collections.Counter()
        with jaxina.init(timeout=60):
            for seed in pairs:
                counts[self.told(random_program(random.Random(seed)))] += 1
                self._forget(seed)
        return counts

    def _forget(self, seed: int) -> None:
        if seed % 200 == 199:
            jax.clear_caches()
            if self.rank == 0:
                print(f"{seed + 1}", flush=True)


def work(options: argparse.Namespace) -> None:
    worker = Worker()
    began = time.monotonic()
    counts = {"differ": worker.differ(range(options.differ)), "equal": worker.equal(range(options.equal))}
    path = Path(options.folder) / f"{worker.rank}.json"
    path.write_text(json.dumps({**counts, "seconds": time.monotonic() - began}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--differ", type=int, default=1000, help="pairs of programs that differ")
    parser.add_argument("--equal", type=int, default=10_000, help="pairs of equal programs")
    parser.add_argument("--aggregator", default="embedded")
    parser.add_argument("--folder", help=argparse.SUPPRESS)  # given to the worker processes
    options = parser.parse_args()
    if options.folder:
        work(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "jaxina.cli", "run", "-n", "2", "--aggregator", options.aggregator, __file__]
        command += ["--differ", str(options.differ), "--equal", str(options.equal), "--folder", folder]
        subprocess.run(command, check=True, env={"JAXINA_LOG": "error", **os.environ})
        found = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(2)]
    for rank, one in enumerate(found):
        print(f"process {rank}: programs that differ were told {one['differ']}, equal ones {one['equal']}")
    print(f"{found[0]['seconds']:.0f} s, JAX {jax.__version__}, {options.aggregator}")
    wanted = {
        name: {told: number} if number else {}
        for name, told, number in (("differ", "MismatchError", options.differ), ("equal", "a sum", options.equal))
    }
    sys.exit(any(one[name] != wanted[name] for one in found for name in wanted))


if __name__ == "__main__":
    main()
