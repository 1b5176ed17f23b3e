#!/usr/bin/env python3
"""Compares a psum of a pytree of many tensors with a psum of a single tensor of the same bytes. They take turns.

    jaxina run -n 2 benchmarks/all_reduce/pytree.py --tensors 200 --bytes 100M --json out/pytree.json

A time, in ms, is from the call to the results on the slowest worker. Every sum is compared with the exact one. The run
is cut into five stretches; the range of the ratio is the range over these.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxina
from jaxina.bench.exact_input import exact_sum, first_difference, rank_input
from jaxina.bench.report import environment
from jaxina.bench.sizes import parse_size, size_text

STRETCHES = 5
_WARM_UP = 3


class Sum:
    """One psum of `tensors` float32 tensors of `elements` elements each, over all processes."""

    def __init__(self, mesh: Mesh, tensors: int, elements: int):
        rank, ranks = jax.process_index(), jax.process_count()
        sharding = NamedSharding(mesh, P("workers"))
        local = rank_input(elements, rank, 0)[None]
        self._tree = [
            jax.make_array_from_process_local_data(sharding, local, (ranks, elements)) for _ in range(tensors)
        ]
        self._expected = exact_sum(elements, ranks, 0)
        self._program = jax.jit(
            jax.shard_map(lambda tree: lax.psum(tree, "workers"), mesh=mesh, in_specs=P("workers"), out_specs=P())
        )

    def milliseconds(self) -> float:
        multihost_utils.sync_global_devices("call")
        began = time.perf_counter()
        results = jax.block_until_ready(self._program(self._tree))
        took = 1e3 * (time.perf_counter() - began)
        for tensor, result in enumerate(results):
            wrong = first_difference(np.asarray(result.addressable_data(0))[0], self._expected)
            if wrong is not None:
                raise SystemExit(f"tensor {tensor}: element {wrong} is not the exact sum")
        return took


def slowest(times: list[float]) -> list[float]:
    everybody: Any = multihost_utils.process_allgather(np.asarray(times, np.float32))
    return [float(t) for t in np.max(everybody, axis=0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensors", type=int, default=200)
    parser.add_argument("--bytes", default="100M", help="bytes of all tensors together")
    parser.add_argument("-i", "--iterations", type=int, default=25)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    elements = parse_size(options.bytes) // 4 // options.tensors
    with jaxina.init() as job:
        mesh = Mesh(np.array(jax.devices()), ("workers",))
        sums = {"tree": Sum(mesh, options.tensors, elements), "one": Sum(mesh, 1, options.tensors * elements)}
        times: dict[str, list[float]] = {name: [] for name in sums}
        for call in range(-_WARM_UP, options.iterations):
            for name, each in sums.items():
                took = each.milliseconds()
                if call >= 0:
                    times[name].append(took)
        times = {name: slowest(values) for name, values in times.items()}
        if job.process > 0:
            return
        medians = {name: statistics.median(values) for name, values in times.items()}
        cuts = np.array_split(np.arange(options.iterations), STRETCHES)
        ratios = sorted(
            statistics.median(times["tree"][i] for i in cut) / statistics.median(times["one"][i] for i in cut)
            for cut in cuts
        )
        print(
            f"{size_text(4 * options.tensors * elements)} over {job.processes} workers: {options.tensors} tensors "
            f"{medians['tree']:.1f} ms, one tensor {medians['one']:.1f} ms, ratio "
            f"{medians['tree'] / medians['one']:.2f} ({ratios[0]:.2f} - {ratios[-1]:.2f})"
        )
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(
                json.dumps({**environment(), "options": vars(options), "times_ms": times}, default=str, indent=2)
            )


if __name__ == "__main__":
    main()
