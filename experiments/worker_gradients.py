"""Real gradients of many workers, for studies of their sums."""

from __future__ import annotations

from collections.abc import Collection

import jax
import numpy as np
import numpy.typing as npt
import optax
from flax import nnx

from experiments import workloads

SHARES = 4
"""How many workers share a batch, as in the grid of `experiments.convergence`."""


def collect(name: str, workers: int, steps: Collection[int], seed: int = 0) -> dict[int, npt.NDArray[np.float32]]:
    """Trains a workload with uncompressed gradients, and stops at some steps to take every worker's gradient.

    A worker's share is a quarter of a batch for every number of workers. So 64 workers take the next 16 batches. The
    training itself goes on with one batch a step.

    Args:
      name: the workload.
      workers: n, a multiple of 4.
      steps: before which steps, counted from 1, the gradients are taken.
      seed: decides the initial parameters and the batches.

    Returns:
      For each of `steps`, float32[n, parameters].
    """
    workload = workloads.get(name)
    graph, params = nnx.split(workload.network(nnx.Rngs(seed)))
    optimizer = workload.optimizer(workload.steps, True)
    state = optimizer.init(params)
    gradient = jax.jit(jax.grad(lambda p, b: workload.loss(nnx.merge(graph, p), b)))

    @jax.jit
    def advance(params, state, batch):
        updates, state = optimizer.update(gradient(params, batch), state, params)
        return optax.apply_updates(params, updates), state

    batches, others = workload.batches(seed), workload.batches(seed + 1)
    taken = {}
    for step in range(1, max(steps) + 1):
        if step in steps:
            taken[step] = np.stack([_flat(gradient(params, share)) for share in _shares(others, workers)])
        params, state = advance(params, state, next(batches))
    return taken


def _shares(batches, workers: int):
    for _ in range(workers // SHARES):
        batch = next(batches)
        for share in range(SHARES):
            yield {name: array.reshape(SHARES, -1, *array.shape[1:])[share] for name, array in batch.items()}


def _flat(gradients) -> npt.NDArray[np.float32]:
    return np.concatenate([np.asarray(leaf).reshape(-1) for leaf in jax.tree.leaves(gradients)])
