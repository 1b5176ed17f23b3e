"""A data-parallel trainer for all workloads and compressors, with n workers of one device each.

The devices are those of one process, or of a job of several.

Every worker differentiates its share of the batch. `Compressor.update` then averages the gradients over the mesh axis
"workers" as it would in a real deployment: it sums with `lax.psum`, or gathers with all-gather. With jaxina's
collectives switched on, jaxina carries those psums. All else is the same for all compressors.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable
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
from jaxina.compressors.dgc import DGC
from jaxina.errors import InvalidArgumentError

AXIS = "workers"


@dataclasses.dataclass
class Outcome:
    """The results of one run.

    Attributes:
      losses: the training loss at each step, averaged over workers.
      scores: (step, score on the split) pairs. A score that is not a finite number is None.
      step_seconds: the time of each step with its batch and its loss, without its scoring.
      sent, received: bytes of worker 0 in a step, averaged over the metered steps (first, middle and last). Nothing is
        metered in a job of several processes.
      diverged: whether the loss became infinite or NaN, which ends the run, or the last score is None.
    """

    losses: list[float]
    scores: list[tuple[int, float | None]]
    step_seconds: list[float]
    sent: float | None
    received: float | None
    diverged: bool

    @property
    def median_step_seconds(self) -> float:
        """Without the first step, in which the programs are compiled."""
        return float(np.median(self.step_seconds[1:] or self.step_seconds))


class Programs:
    """The programs that do not depend on the compressor. They are compiled once for a workload and a number of workers.

    Args:
      workload: what is trained.
      workers: the number of devices to use. JAX must have as many.

    Raises:
      InvalidArgumentError: the workers cannot have equal shares of a batch.
    """

    def __init__(self, workload: Workload, workers: int) -> None:
        if workload.batch_size % workers:
            raise InvalidArgumentError(
                f"a batch of {workload.batch_size} rows is not to be divided among {workers} workers"
            )
        self.workload, self.workers = workload, workers
        self.mesh = jax.make_mesh((workers,), (AXIS,), devices=jax.devices()[:workers])
        self.replicated, self.split = NamedSharding(self.mesh, P()), NamedSharding(self.mesh, P(AXIS))
        self._graph = nnx.graphdef(nnx.eval_shape(lambda: workload.network(nnx.Rngs(0))))
        self._held_out: dict[str, list[Any]] = {}
        self.parameters = jax.jit(self._parameters, out_shardings=self.replicated)
        self.gradients = jax.jit(
            jax.shard_map(
                self._loss_and_gradients, mesh=self.mesh, in_specs=(P(), P(AXIS)), out_specs=P(AXIS), check_vma=False
            )
        )
        self.mean = jax.jit(jnp.mean, out_shardings=self.replicated)
        self._predict = jax.jit(lambda params, batch: workload.predict(nnx.merge(self._graph, params), batch))

    def place(self, batch: Any) -> Any:
        """Divides arrays [batch, ...], which all processes have, among the workers."""
        return jax.tree.map(
            lambda array: jax.make_array_from_callback(array.shape, self.split, lambda index: array[index]), batch
        )

    def parameter_count(self) -> int:
        return sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(self.parameters, jax.random.key(0))))

    def score(self, params: Any, split: str) -> float | None:
        """Returns the score of replicated parameters on a split, or None if it or a parameter is not a finite number.

        A metric may not show that all predictions are NaN: it may take the first class, or find nothing larger.
        """
        if split not in self._held_out:
            self._held_out[split] = jax.device_put(self.workload.held_out(split), jax.local_devices()[0])
        one = jax.device_put(jax.tree.map(lambda leaf: leaf.addressable_shards[0].data, params), jax.local_devices()[0])
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(jax.device_get(one))):
            return None
        score = self.workload.score([np.asarray(self._predict(one, batch)) for batch in self._held_out[split]])
        return score if np.isfinite(score) else None

    def _parameters(self, key: jax.Array) -> Any:
        return nnx.state(self.workload.network(nnx.Rngs(key)), nnx.Param)

    def _loss_and_gradients(self, params: Any, batch: Any) -> tuple[jax.Array, Any]:
        """Returns one worker's loss and gradients. A leading axis of size 1 becomes the axis of workers."""
        both = jax.value_and_grad(lambda p: self.workload.loss(nnx.merge(self._graph, p), batch))(params)
        return jax.tree.map(lambda leaf: leaf[None], both)


class Trainer:
    """Trains with one compressor. Its programs are compiled once and serve runs with any seed and learning rate.

    Args:
      programs: the workload's programs.
      compressor: how gradients are exchanged.
      steps: the number of steps of a run.
      collectives: a context manager around the exchange of gradients, for example `jaxina.collectives`.
    """

    def __init__(
        self,
        programs: Programs,
        compressor: Compressor,
        steps: int,
        collectives: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext,
    ) -> None:
        self.programs, self.compressor, self.steps = programs, compressor, steps
        self._collectives = collectives
        # DGC applies momentum itself, before it selects elements.
        self._optimizer = programs.workload.optimizer(steps, momentum=not isinstance(compressor, DGC))
        self._init = jax.jit(self._initial_states, out_shardings=(programs.replicated, programs.split))
        self._meter = Meter(compressor)
        self._exchange = self._compile()

    def run(
        self,
        seed: int,
        scale: float,
        split: str,
        evaluations: int,
        on_step: Callable[[int, float], None] = lambda step, loss: None,
    ) -> Outcome:
        """Trains, and scores the model at equal distances, the last time at the end.

        Args:
          seed: decides the initial values and the batches.
          scale: a factor on the workload's learning rate.
          split: VALIDATION or TEST, what the model is scored by.
          evaluations: how often.
          on_step: is told each step and its loss.
        """
        programs = self.programs
        scale = np.float32(scale)
        key = jax.random.key(seed)
        params = programs.parameters(key)
        state = (params, *self._init(params, jax.random.fold_in(key, 1)))
        batches = programs.workload.batches(seed)
        score_after = {round(self.steps * (i + 1) / evaluations) for i in range(evaluations)}
        metered = {0, self.steps // 2, self.steps - 1} if jax.process_count() == 1 else set()
        losses, scores, seconds, traffic = [], [], [], []
        for step in range(self.steps):
            # All but the scoring counts. Over links, a pause that is not counted would let more bytes pass in a second.
            start = time.perf_counter()
            batch = programs.place(next(batches))
            loss, gradients = programs.gradients(state[0], batch)
            with self._collectives():
                state, messages = self._exchange(state, gradients, scale)
            jax.block_until_ready(state)
            losses.append(float(programs.mean(loss)))
            seconds.append(time.perf_counter() - start)
            if step in metered:
                traffic.append(self._meter.traffic(messages))
            on_step(step, losses[-1])
            if not np.isfinite(losses[-1]):
                scores.append((step + 1, None))
                break
            if step + 1 in score_after:
                scores.append((step + 1, programs.score(state[0], split)))
        return Outcome(
            losses=losses,
            scores=scores,
            step_seconds=seconds,
            sent=float(np.mean([t.sent for t in traffic])) if traffic else None,
            received=float(np.mean([t.received for t in traffic])) if traffic else None,
            diverged=scores[-1][1] is None,
        )

    def _initial_states(self, params: Any, key: jax.Array) -> tuple[Any, Any]:
        """Returns the optimizer's state, replicated, and the compressor's state, with a leading axis of workers."""
        workers = self.programs.workers
        stacked = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (workers, *leaf.shape)), self.compressor.init(params, key)
        )
        return self._optimizer.init(params), stacked

    def _compile(self) -> Callable:
        def exchange(state: tuple[Any, Any, Any], gradients: Any, scale: jax.Array):
            params, optimizer_state, compressor_state = state
            ours, mine = (jax.tree.map(lambda leaf: leaf[0], tree) for tree in (gradients, compressor_state))
            mean, mine, messages = self._meter.update(ours, mine, AXIS)
            updates, optimizer_state = self._optimizer.update(mean, optimizer_state, params)
            params = optax.apply_updates(params, optax.tree.scale(scale, updates))
            mine, messages = (jax.tree.map(lambda leaf: leaf[None], tree) for tree in (mine, messages))
            return (params, optimizer_state, mine), messages

        specs = (P(), P(), P(AXIS))
        # check_vma is off so that each worker keeps its own gradients. With it, JAX would sum the gradients of
        # replicated parameters itself.
        sharded = jax.shard_map(
            exchange,
            mesh=self.programs.mesh,
            in_specs=(specs, P(AXIS), P()),
            out_specs=(specs, P(AXIS)),
            check_vma=False,
        )
        return jax.jit(sharded, donate_argnums=0)
