#!/usr/bin/env python3
"""Measures what a call of psum costs in one process, with XLA's own collectives and with jaxina, dispatch included.

    python benchmarks/jax/overhead.py [--repetitions 300]

It also compares many small tensors with one tensor of their total size. A time is the median of single blocking calls,
in microseconds. The calls with and without jaxina take turns, so that other work on the machine disturbs both alike.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxina

DEVICES = 4
TENSORS, EACH = 200, 1024  # the many small tensors: 200 of 4 KiB


def on(devices: int, f: Callable[[Any], Any], x: Any) -> Callable[[], Any]:
    """Returns a call of f on the first `devices` devices. The rows of x are already split over them."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:devices]), ("w",), axis_types=(AxisType.Auto,))
    x = jax.device_put(x, NamedSharding(mesh, P("w")))
    program = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("w"), out_specs=P(), check_vma=False))
    return lambda: jax.block_until_ready(program(x))


def psum(x: Any) -> Any:
    return lax.psum(x, "w")


def no_psum(x: Any) -> Any:
    """Has the same operands and results as psum. It measures what JAX's handling of these costs."""
    return jax.tree.map(lambda v: v + 1, x)


def medians(calls: dict[str, Callable[[], Any]], repetitions: int) -> dict[str, float]:
    """Returns name -> median microseconds. Names with "jaxina" run with jaxina on. All calls take turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for repetition in range(repetitions + 5):
        for name, call in calls.items():
            with jaxina.collectives("jaxina" in name):
                start = time.perf_counter()
                call()
                took = time.perf_counter() - start
            if repetition >= 5:  # the first ones compile and join
                times[name].append(took * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=300)
    repetitions = parser.parse_args().repetitions
    jax.config.update("jax_num_cpu_devices", DEVICES)
    with jaxina.init(aggregator="embedded"):
        print(f"JAX {jax.__version__}; medians of {repetitions} calls, us")
        for devices in (1, DEVICES):
            calls = {world: on(devices, psum, np.ones((devices, 1), np.float32)) for world in ("native", "jaxina")}
            found = medians(calls, repetitions)
            more = found["jaxina"] - found["native"]
            print(
                f"4 B, {devices} device(s): native {found['native']:.0f}, jaxina {found['jaxina']:.0f}, "
                f"more {more:.0f}",
                flush=True,
            )
        small = [np.ones((DEVICES, EACH), np.float32) for _ in range(TENSORS)]
        large = np.ones((DEVICES, TENSORS * EACH), np.float32)
        calls = {
            f"{world} {name}": on(DEVICES, f, x)
            for world, f in (("native", psum), ("jaxina", psum), ("no psum", no_psum))
            for name, x in (("small", small), ("large", large))
        }
        found = medians(calls, max(1, repetitions // 10))
        for world in ("native", "jaxina", "no psum"):
            few, many = found[f"{world} large"], found[f"{world} small"]
            told = f"{TENSORS} x {4 * EACH} B, {DEVICES} devices, {world}: "
            told += f"one tensor {few:.0f}, {TENSORS} tensors {many:.0f}"
            if world != "no psum":
                few, many = few - found["no psum large"], many - found["no psum small"]
                told += f"; without what no psum costs {few:.0f} and {many:.0f}, ratio {many / few:.2f}"
            print(told, flush=True)


if __name__ == "__main__":
    main()
