"""Measures how long XLA compiles `Compressor.update` for a model of many leaves.

    python -m experiments.compilation_cost                 # prints a table
    python -m experiments.compilation_cost topk:0.01 thc

The gradient has the leaves of a transformer of twelve layers, as GPT-2 has them: 148 arrays of 8 shapes, with a width
of 64 instead of 768. Four workers, with a CPU device each, average it in a `jax.shard_map`. The time is that of tracing
and compiling, in processor time, since other programs disturb it less than wall-clock time.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from jaxina import compressors

SPECS = ("int8+ef", "qsgd:64", "topk:0.01", "randomk:0.01", "powersgd:4", "thc")
LAYERS, WIDTH, VOCABULARY, CONTEXT, WORKERS = 12, 64, 256, 128, 4


def gradient() -> dict[str, Any]:
    """Returns zeros of the shapes of a transformer's parameters."""
    layer = {
        "norm1": {"scale": (WIDTH,), "bias": (WIDTH,)},
        "attention": {"kernel": (WIDTH, 3 * WIDTH), "bias": (3 * WIDTH,)},
        "projection": {"kernel": (WIDTH, WIDTH), "bias": (WIDTH,)},
        "norm2": {"scale": (WIDTH,), "bias": (WIDTH,)},
        "up": {"kernel": (WIDTH, 4 * WIDTH), "bias": (4 * WIDTH,)},
        "down": {"kernel": (4 * WIDTH, WIDTH), "bias": (WIDTH,)},
    }
    shapes = {
        "tokens": (VOCABULARY, WIDTH),
        "positions": (CONTEXT, WIDTH),
        "layers": [layer] * LAYERS,
        "norm": {"scale": (WIDTH,), "bias": (WIDTH,)},
    }
    return jax.tree.map(lambda shape: jnp.zeros(shape), shapes, is_leaf=lambda node: isinstance(node, tuple))


def seconds(spec: str) -> tuple[float, float]:
    """Returns the processor time of tracing and of compiling one update of all workers."""
    compressor, gradients = compressors.get(spec), gradient()
    state = compressor.init(gradients, jax.random.key(0))

    def step(gradients: Any, state: Any) -> Any:
        own = jax.tree.map(lambda leaf: leaf[0], (gradients, state))
        return jax.tree.map(lambda leaf: leaf[None], compressor.update(*own, "workers"))

    mesh = jax.make_mesh((WORKERS,), ("workers",))
    split = jax.shard_map(step, mesh=mesh, in_specs=P("workers"), out_specs=P("workers"), check_vma=False)
    stacked = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (WORKERS, *leaf.shape)), (gradients, state))
    stacked = jax.device_put(stacked, NamedSharding(mesh, P("workers")))
    start = time.process_time()
    lowered = jax.jit(split).lower(*stacked)
    traced = time.process_time()
    lowered.compile()
    return traced - start, time.process_time() - traced


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="*", default=SPECS)
    jax.config.update("jax_num_cpu_devices", WORKERS)
    leaves = jax.tree.leaves(gradient())
    print(f"{len(leaves)} leaves of {len({leaf.shape for leaf in leaves})} shapes, {WORKERS} workers\n")
    print("| compressor | traced, s | compiled, s |\n|---|---:|---:|")
    for spec in parser.parse_args().specs:
        print("| `{}` | {:.1f} | {:.1f} |".format(spec, *seconds(spec)), flush=True)


if __name__ == "__main__":
    main()
