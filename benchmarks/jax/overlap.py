#!/usr/bin/env python3
"""Measures whether computation goes on while psums are under way.

    python benchmarks/jax/overlap.py [--processes 2] [--repetitions 20] [--trace FOLDER]

It times a program with psums and matmuls, and programs with only one of the two. Each process has one device. A step
has `PSUMS` sums and, on the first device, matmuls that depend on none of them. The time of both together lies between
the larger of the two times alone (all overlaps) and their sum (nothing overlaps). There are two cases:

* wait: small sums, for which the other processes are `LATE_S` late, as on a slow network or with a straggler.
* work: large sums, whose cost is this machine's own work. That can overlap only if cores are idle.

With --trace, process 0 also writes JAX's profile of three runs of both together into FOLDER. On a GPU it shows the
kernels of both, and https://ui.perfetto.dev opens it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxina

PSUMS, LATE_S = 4, 0.15
CASES = {"wait": (256, LATE_S), "work": (2 << 20, 0.0)}  # elements of each sum, seconds that the others are late
CHAINS = 8
# Matmuls of a chain, and the size of their matrices. All chains together take about as long as the others are late.
WORK = {"cpu": (2, 512), "gpu": (6, 4096)}
LIMIT_S = 600


def sums(x: jax.Array) -> Any:
    return [lax.psum(x * i, "w") for i in range(PSUMS)]


def products(m: jax.Array, matmuls: int) -> Any:
    """Computes independent chains of matmuls on device 0.

    The other devices compute none, because these would run before their psums and make them even later. There are
    several chains because XLA runs the operations of a program one after the other if they are very few.
    """
    count = jnp.where(lax.axis_index("w") == 0, matmuls, 0)
    chains = [lax.fori_loop(0, count, lambda _, v: jnp.tanh(v @ v), m + i) for i in range(CHAINS)]
    return sum(chains)


def between_start_and_done(program: str) -> int | None:
    """Counts what XLA runs between a psum's start and its end on a GPU, where these are two calls.

    Args:
      program: the compiled program as text.

    Returns:
      The number of operations that do something; None if the program has no such calls.
    """
    return operations_between(program, '"jaxina_all_reduce_start"', '"jaxina_all_reduce_done"')


def operations_between(program: str, first: str, last: str) -> int | None:
    """The same between the first line that has the text `first` and the first that has `last`."""
    lines = program[program.rindex("\nENTRY") :].splitlines()
    places = [[i for i, line in enumerate(lines) if text in line] for text in (first, last)]
    if not all(places):
        return None
    between = lines[places[0][0] + 1 : places[1][0]]
    return sum(re.search(r" (tuple|get-tuple-element|bitcast|parameter|constant)\(", line) is None for line in between)


def measure(case: str, repetitions: int, trace: str | None) -> None:
    """Runs in every process; process 0 prints its medians, in milliseconds."""
    elements, late = CASES[case]
    with jaxina.init():
        matmuls, size = WORK[jax.default_backend()]
        mesh = jax.make_mesh((jax.device_count(),), ("w",), axis_types=(AxisType.Auto,))
        spread = NamedSharding(mesh, P("w"))

        def place(shape: tuple[int, ...]) -> jax.Array:
            ones = np.ones((shape[0] * mesh.size, *shape[1:]), np.float32)
            return jax.make_array_from_callback(ones.shape, spread, lambda index: ones[index])

        x, m = place((elements,)), place((size, size))

        def program(f: Callable[..., Any], ins: Any, outs: Any) -> Any:
            return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False))

        programs: dict[str, tuple[Any, tuple[Any, ...]]] = {
            "psums": (program(sums, P("w"), P()), (x,)),
            "matmuls": (program(lambda b: products(b, matmuls), P("w"), P("w")), (m,)),
            "both": (program(lambda a, b: (sums(a), products(b, matmuls)), P("w"), (P(), P("w"))), (x, m)),
        }
        together = program(lambda a: lax.psum(a[0], "w"), P("w"), P())
        times: dict[str, list[float]] = {name: [] for name in programs}
        for repetition in range(repetitions + 2):
            for name, (run, operands) in programs.items():
                together(x).block_until_ready()
                if jax.process_index() != 0:
                    time.sleep(late)
                start = time.perf_counter()
                jax.block_until_ready(run(*operands))
                if repetition >= 2:
                    times[name].append((time.perf_counter() - start) * 1e3)
        if trace:
            run, operands = programs["both"]
            profiled = jax.process_index() == 0
            with jax.profiler.trace(trace) if profiled else contextlib.nullcontext():
                for _ in range(3):
                    together(x).block_until_ready()
                    if not profiled:
                        time.sleep(late)
                    jax.block_until_ready(run(*operands))
        if jax.process_index() == 0:
            run, operands = programs["both"]
            between = between_start_and_done(run.lower(*operands).compile().as_text())
            found = {name: statistics.median(values) for name, values in times.items()}
            alone = found["psums"], found["matmuls"]
            hidden = (sum(alone) - found["both"]) / min(alone)
            print(
                f"{case}: JAX {jax.__version__}, {mesh.size} processes, {jax.devices()[0].device_kind}, "
                f"{os.cpu_count()} cores, "
                f"medians of {repetitions}, ms: psums {alone[0]:.1f}, matmuls {alone[1]:.1f}, sum {sum(alone):.1f}, "
                f"together {found['both']:.1f}; {hidden:.0%} of the shorter is hidden"
                + ("" if between is None else f"; XLA runs {between} operations between the psums' start and end"),
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--case", choices=tuple(CASES))
    parser.add_argument("--trace", metavar="FOLDER")
    options = parser.parse_args()
    if "JAXINA_RANK" in os.environ:
        return measure(options.case, options.repetitions, options.trace)
    command = [sys.executable, "-m", "jaxina.cli", "run", "-n", str(options.processes), __file__]
    for case in [options.case] if options.case else CASES:
        told = ["--case", case, "--repetitions", str(options.repetitions)]
        told += ["--trace", options.trace] if options.trace else []
        subprocess.run([*command, *told], check=True, timeout=LIMIT_S)
    return None


if __name__ == "__main__":
    main()
