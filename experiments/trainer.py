"""One data-parallel trainer for all workloads and compressors: n workers, one device each, everything else equal.

Every worker differentiates its share of the batch; `Compressor.update` averages the gradients over the mesh axis
"workers" as the compressor would be deployed: sums through `lax.psum`, the rest through all-gather. With jaxina's
collectives switched on, those psums are carried by jaxina.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from experiments.workloads import Workload
from jaxina.compressors import Compressor, Meter

AXIS = "workers"


@dataclasses.dataclass
class Outcome:
    """What one run gave.

    Attributes:
      losses: the training loss at each step, mean over workers.
      scores: (step, score on the test set) pairs; None for a score that is not a finite number.
      step_seconds: median time of a step after the first two.
      sent, received: bytes of worker 0 in a step, mean over the metered steps (the first, the middle, the last).
      diverged: the loss stopped being finite; the run ends there.
    """

    losses: list[float]
    scores: list[tuple[int, float | None]]
    step_seconds: float
    sent: float
    received: float
    diverged: bool


class Trainer:
    """Compiled once for a workload, a compressor and a number of workers; runs with any seed.

    Args:
      workload: what is trained.
      compressor: how gradients are exchanged.
      workers: devices to use; JAX must have them.
      steps: length of a run.
      scale: factor of the workload's learning rate.
      momentum: False to train with an optimizer without momentum.
      collectives: a context manager in which programs are traced and run, e.g. `jaxina.collectives`.
    """

    def __init__(
        self, workload: Workload, compressor: Compressor, workers: int, steps: int, scale: float, momentum: bool,
        collectives: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext,
    ) -> None:
        if workload.batch_size % workers:
            raise ValueError(f"a batch of {workload.batch_size} is not to be divided among {workers} workers")
        self.workload, self.compressor, self.workers, self.steps = workload, compressor, workers, steps
        self._collectives = collectives
        self._mesh = jax.make_mesh((workers,), (AXIS,), devices=jax.devices()[:workers])
        self._optimizer = workload.optimizer(steps, scale, momentum)
        self._graph = nnx.graphdef(nnx.eval_shape(lambda: workload.network(nnx.Rngs(0))))
        self._init = jax.jit(self._initial_state, out_shardings=self._shardings())
        self._meter = Meter(compressor)
        self._step = self._compile(metered=False)
        self._metered_step = self._compile(metered=True)
        self._predict = jax.jit(lambda params, batch: workload.predict(nnx.merge(self._graph, params), batch))

    def run(self, seed: int, evaluations: int, on_step: Callable[[int, float], None] = lambda step, loss: None) -> Outcome:
        """Trains from `seed`; scores the model `evaluations` times, evenly, the last time at the end."""
        with self._collectives():
            return self._run(seed, evaluations, on_step)

    def parameter_count(self) -> int:
        params = jax.eval_shape(lambda: nnx.state(self.workload.network(nnx.Rngs(0)), nnx.Param))
        return sum(leaf.size for leaf in jax.tree.leaves(params))

    def _run(self, seed: int, evaluations: int, on_step: Callable[[int, float], None]) -> Outcome:
        state = self._init(jax.random.key(seed))
        batches = self._sharded(self.workload.batches(seed))
        score_after = {round(self.steps * (i + 1) / evaluations) for i in range(evaluations)}
        metered = {0, self.steps // 2, self.steps - 1}
        losses, scores, seconds, traffic = [], [], [], []
        for step in range(self.steps):
            batch = next(batches)
            start = time.perf_counter()
            if step in metered:
                state, loss, messages = self._metered_step(state, batch)
                traffic.append(self._meter.traffic(messages))
            else:
                state, loss = self._step(state, batch)
            losses.append(float(np.mean(loss)))  # waits for the step
            if step not in metered:
                seconds.append(time.perf_counter() - start)
            on_step(step, losses[-1])
            if not np.isfinite(losses[-1]):
                scores.append((step + 1, None))
                break
            if step + 1 in score_after:
                scores.append((step + 1, self._score(state[0])))
        return Outcome(
            losses=losses,
            scores=scores,
            step_seconds=float(np.median(seconds[1:] or seconds or [np.nan])),
            sent=float(np.mean([t.sent for t in traffic])),
            received=float(np.mean([t.received for t in traffic])),
            diverged=not np.isfinite(losses[-1]),
        )

    def _initial_state(self, key: jax.Array) -> tuple[Any, Any, Any]:
        """Parameters and optimizer state, alike everywhere; compressor states with a leading axis of workers."""
        params = nnx.state(self.workload.network(nnx.Rngs(key)), nnx.Param)
        compressor_state = self.compressor.init(params, jax.random.fold_in(key, 1))
        stacked = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (self.workers, *leaf.shape)), compressor_state)
        return params, self._optimizer.init(params), stacked

    def _shardings(self) -> tuple[NamedSharding, NamedSharding, NamedSharding]:
        replicated, split = NamedSharding(self._mesh, P()), NamedSharding(self._mesh, P(AXIS))
        return replicated, replicated, split

    def _compile(self, metered: bool) -> Callable:
        def step(state: tuple[Any, Any, Any], batch: Any):
            params, optimizer_state, compressor_state = state
            loss, gradients = jax.value_and_grad(
                lambda p: self.workload.loss(nnx.merge(self._graph, p), batch))(params)
            mine = jax.tree.map(lambda leaf: leaf[0], compressor_state)
            mean, mine, messages = self._meter.update(gradients, mine, AXIS)
            updates, optimizer_state = self._optimizer.update(mean, optimizer_state, params)
            params = optax.apply_updates(params, updates)
            state = (params, optimizer_state, jax.tree.map(lambda leaf: leaf[None], mine))
            loss = loss[None]  # averaged outside: a collective of its own could get in the way of the others
            return (state, loss, jax.tree.map(lambda leaf: leaf[None], messages)) if metered else (state, loss)

        specs = (P(), P(), P(AXIS))
        # Gradients must stay each worker's own: with check_vma JAX would sum those of replicated parameters itself.
        sharded = jax.shard_map(
            step, mesh=self._mesh, in_specs=(specs, P(AXIS)),
            out_specs=(specs, P(AXIS), P(AXIS)) if metered else (specs, P(AXIS)), check_vma=False)
        return jax.jit(sharded, donate_argnums=0)

    def _sharded(self, batches: Iterator[Any]) -> Iterator[Any]:
        sharding = NamedSharding(self._mesh, P(AXIS))
        for batch in batches:
            yield jax.device_put(batch, sharding)

    def _score(self, params: Any) -> float | None:
        one = jax.device_put(jax.tree.map(lambda leaf: leaf.addressable_shards[0].data, params), jax.devices()[0])
        predictions = [np.asarray(self._predict(one, batch)) for batch in self.workload.test_batches()]
        score = self.workload.score(predictions)
        return score if np.isfinite(score) else None
