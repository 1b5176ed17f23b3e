"""Measures what each compressor costs: processor time of one core for each element of a worker's gradient.

    python -m experiments.compression_cost         # writes results/compression_cost.json

The cost is what one worker does in a step: all of `Compressor.update` for its own gradient and, for compressors that
gather, decoding the other workers' payloads. The gradient is a matrix and a vector of 65,536 normally distributed
elements each. For comparison, the study also measures for each workload the time to differentiate a worker's share of
the batch. It measures processor time, not wall-clock time, because a busy machine disturbs processor time less.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

# One thread, like a worker that has one core for this work. JAX reads the variable when it starts, so it is set here.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from rich.progress import track

from experiments import grid, workloads
from experiments.records import RESULTS, provenance
from jaxina import compressors
from jaxina.compressors import GATHER, Compressor, Context

FILE = RESULTS / "compression_cost.json"
REPETITIONS = 15


def main() -> None:
    study = grid.Grid.read(grid.DEFAULT)
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    rng = np.random.default_rng(2021)
    gradient = {"matrix": rng.normal(size=(256, 256)), "vector": rng.normal(size=65536)}
    gradient = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), gradient)
    elements = sum(leaf.size for leaf in jax.tree.leaves(gradient))
    chosen = [compressors.get(spec) for spec in study.compressors]
    document = {
        "workers": study.workers,
        "gradient_ms": {name: gradient_ms(name, study.workers) for name in track(study.workloads, "gradients")},
        "compression_ns": {
            compressors.spec_of(compressor): 1e6 * compression_ms(compressor, gradient, study.workers) / elements
            for compressor in track(chosen, "compressors")
        },
        "provenance": provenance(),
    }
    FILE.write_text(json.dumps(document, indent=1) + "\n")
    print(FILE)


def gradient_ms(name: str, workers: int) -> float:
    """Returns the time to differentiate one worker's share of a batch."""
    workload = workloads.get(name)
    graph, params = nnx.split(workload.network(nnx.Rngs(0)))
    share = {key: array[: workload.batch_size // workers] for key, array in next(workload.batches(0)).items()}
    share = jax.device_put(share)
    differentiate = jax.jit(jax.grad(lambda p, batch: workload.loss(nnx.merge(graph, p), batch)))
    return timed_ms(lambda: differentiate(params, share))


def compression_ms(compressor: Compressor, gradient: Any, workers: int) -> float:
    """Returns the time that one worker spends on compression in one step."""
    state = compressor.init(gradient, jax.random.key(0))
    update = jax.jit(lambda g, s: compressor.update(g, s))
    total = timed_ms(lambda: update(gradient, state))
    if compressor.kind == GATHER:
        payloads = jax.jit(lambda g: encoded(compressor, g, workers))(gradient)
        decode = jax.jit(lambda p: decoded(compressor, p, gradient, workers))
        total += timed_ms(lambda: decode(payloads))
    return total


def encoded(compressor: Compressor, gradient: Any, workers: int) -> list[Any]:
    """Returns the payloads of the other workers, leaf by leaf. The leading axis is the worker."""

    def leaf(x: jax.Array, worker: jax.Array) -> Any:
        state = compressor.init_leaf(x, jax.random.key(0)) | {"memory": jnp.zeros(x.shape)}
        return compressor.encode(x, state, _context(compressor, x, workers, worker))[0]

    of_all = jax.vmap(leaf, in_axes=(None, 0))
    return [of_all(x, jnp.arange(1, workers)) for x in jax.tree.leaves(gradient)]


def decoded(compressor: Compressor, payloads: list[Any], gradient: Any, workers: int) -> list[jax.Array]:
    def leaf(payload: Any, x: jax.Array) -> jax.Array:
        context = _context(compressor, x, workers, 0)
        return jax.vmap(lambda one: compressor.decode(one, context))(payload).sum(axis=0)

    return [leaf(payload, x) for payload, x in zip(payloads, jax.tree.leaves(gradient), strict=True)]


def _context(compressor: Compressor, x: jax.Array, workers: int, worker: jax.Array | int) -> Context:
    return Context(x.shape, workers, jax.random.key(1), worker, compressor.propose(x))


def timed_ms(call: Callable[[], Any]) -> float:
    """Returns the median processor time of a call in milliseconds. A first call compiles and is not counted."""
    jax.block_until_ready(call())
    times = []
    for _ in range(REPETITIONS):
        start = time.process_time()
        jax.block_until_ready(call())
        times.append(1e3 * (time.process_time() - start))
    return statistics.median(times)


if __name__ == "__main__":
    main()
