#!/usr/bin/env python3
"""What a psum costs per call, dispatch included, native and with jaxina, in one process; and many small
tensors against one of their total size.

    python benchmarks/jax/overhead.py [--repetitions 300]

Times are medians of single blocking calls, in microseconds. The two worlds take turns, so that whatever else the machine
does meets both.
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
TENSORS, EACH = 200, 1024  # many small: 200 x 4 KiB


def on(devices: int, f: Callable[[Any], Any], x: Any) -> Callable[[], Any]:
    """f on the first `devices` devices, with its operand (rows are split) in place."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:devices]), ("w",), axis_types=(AxisType.Auto,))
    x = jax.device_put(x, NamedSharding(mesh, P("w")))
    program = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("w"), out_specs=P(), check_vma=False))
    return lambda: jax.block_until_ready(program(x))


def psum(x: Any) -> Any:
    return lax.psum(x, "w")


def no_psum(x: Any) -> Any:
    """The same operands and results, whose handling by JAX costs by itself."""
    return jax.tree.map(lambda v: v + 1, x)


def medians(calls: dict[str, Callable[[], Any]], repetitions: int) -> dict[str, float]:
    """Name -> median microseconds; names with "jaxina" run with jaxina on, and all take turns."""
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
            told = f"{TENSORS} x {4 * EACH} B, {DEVICES} devices, {world}: one tensor {few:.0f}, {TENSORS} tensors {many:.0f}"
            if world != "no psum":
                few, many = few - found["no psum large"], many - found["no psum small"]
                told += f"; without what no psum costs {few:.0f} and {many:.0f}, ratio {many / few:.2f}"
            print(told, flush=True)


if __name__ == "__main__":
    main()
