"""Times how long selecting the largest elements takes: jaxina's native code, and XLA's `jax.lax.top_k`.

    python benchmarks/jax/top_k.py

Both choose the same elements of normally distributed float32. The time is processor time of one core: medians of many
calls, which take turns.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

# One thread, like a worker that has one core for this work. JAX reads the variable when it starts, so it is set here.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"

import jax
import jax.numpy as jnp
import numpy as np

from jaxina.compressors.top_k import largest_places

RATIOS = (0.001, 0.01, 0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, nargs="+", default=[1 << 16, 1 << 20, 1 << 24], metavar="N")
    parser.add_argument("--repetitions", type=int, default=25, metavar="N", help="how many calls of each are timed")
    options = parser.parse_args()
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    for elements in options.elements:
        values = jax.random.normal(jax.random.key(0), (elements,))
        for ratio in RATIOS:
            native, xla = nanoseconds(values, max(1, round(ratio * elements)), options.repetitions)
            print(
                f"{100 * ratio:g} % of {elements:,}: jaxina {native:.2f}, XLA {xla:.2f} ns an element, "
                f"XLA / jaxina {xla / native:.1f}"
            )


def nanoseconds(values: jax.Array, k: int, repetitions: int) -> tuple[float, float]:
    """Times jaxina and XLA, for each element.

    Raises:
      AssertionError: they do not choose the same elements.
    """
    ways: list[Callable[[jax.Array], jax.Array]] = [
        jax.jit(lambda x: largest_places(x, k)),
        jax.jit(lambda x: jax.lax.top_k(jnp.abs(x), k)[1]),
    ]
    np.testing.assert_array_equal(*(way(values) for way in ways))
    times: list[list[float]] = [[], []]
    for _ in range(repetitions):
        for way, taken in zip(ways, times, strict=True):
            start = time.process_time()
            jax.block_until_ready(way(values))
            taken.append(time.process_time() - start)
    native, xla = (1e9 * float(np.median(taken)) / values.size for taken in times)
    return native, xla


if __name__ == "__main__":
    main()
