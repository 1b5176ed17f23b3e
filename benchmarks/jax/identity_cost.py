"""Measures what a program's identity costs when the program is lowered.

    python benchmarks/jax/identity_cost.py

The cost is one hash of the module's text. Calls of the compiled program cost nothing more.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

import jaxina
from jaxina import _module

DEVICES = 2
WIDTH = 256


def network(layers: int) -> Callable[[Any, Any], Any]:
    """Returns a training step of a network of dense layers with residuals. It sums the gradients over the devices."""

    def loss(parameters: Any, x: Any) -> Any:
        for w in parameters:
            x = x + jnp.tanh(x @ w) / layers
        return lax.pmean((x**2).mean(), "w")

    def step(parameters: Any, x: Any) -> Any:
        return jax.tree.map(lambda w, g: w - 0.1 * g, parameters, jax.grad(loss)(parameters, x))

    return step


def measure(layers: int, repetitions: int) -> str:
    mesh = jax.make_mesh((DEVICES,), ("w",))
    step = jax.jit(jax.shard_map(network(layers), mesh=mesh, in_specs=(P(), P("w")), out_specs=P()))
    parameters = [np.eye(WIDTH, dtype=np.float32)] * layers
    x = jax.device_put(np.ones((8, WIDTH), np.float32), jax.NamedSharding(mesh, P("w")))
    hashing: list[float] = []
    native = _module._digest

    def timed(module: Any) -> str:
        began = time.perf_counter()
        digest = native(module)
        hashing.append(time.perf_counter() - began)
        return digest

    lowering, compiling, size = [], [], 0
    _module._digest = timed
    try:
        for _ in range(repetitions):
            jax.clear_caches()
            began = time.perf_counter()
            lowered = step.lower(parameters, x)
            lowering.append(time.perf_counter() - began)
            size = len(lowered.as_text())
            began = time.perf_counter()
            lowered.compile()
            compiling.append(time.perf_counter() - began)
    finally:
        _module._digest = native
    hashed, lowered_in, compiled_in = (1e3 * statistics.median(times) for times in (hashing, lowering, compiling))
    return (
        f"{layers} layers, {size / 1e3:.0f} kB of text: {hashed:.2f} ms of {lowered_in:.0f} ms to trace and lower "
        f"({hashed / lowered_in:.1%}), and {compiled_in:.0f} ms to compile"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    repetitions = parser.parse_args().repetitions
    jax.config.update("jax_num_cpu_devices", DEVICES)
    with jaxina.init(aggregator="embedded"):
        print(f"JAX {jax.__version__}, medians of {repetitions}")
        for layers in (2, 20, 100):
            print(measure(layers, repetitions), flush=True)


if __name__ == "__main__":
    main()
