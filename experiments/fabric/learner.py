"""A model that updates of different ages change: real gradients of a workload, on one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import jax

from experiments.trainer import Programs
from experiments.workloads import TEST, Workload


class AnyLearner(Protocol):
    """The server's model, and the workers that change it.

    Attributes:
      model: of this moment. Nobody changes it in place.
      version: how many changes it has.
    """

    model: Any
    version: int

    def change(self, model: Any, worker: int, steps: int) -> Any:
        """What a worker wants to change, computed from a version of the model. Takes its next batches."""
        ...

    def commit(self, changes: Sequence[Any]) -> None:
        """Adds changes to the model. Each makes a new version."""
        ...

    def score(self) -> float:
        """How good the model is. Not a number if that cannot be said."""
        ...


class Learner:
    """The server's model, and the workers that change it by stochastic gradient descent.

    A worker's change is what its steps do to its own copy of the model. The server adds 1/workers of each change. So a
    round of all workers is their mean, at once or one after the other.

    Args:
      workload: what is trained.
      workers: each has batches of its own.
      rows: of a worker's batch. At most the workload's batch.
      learning_rate: of a worker's step.
      seed: of the parameters and the batches.
    """

    def __init__(self, workload: Workload, workers: int, rows: int, learning_rate: float, seed: int) -> None:
        self._programs = Programs(workload, 1)
        self._batches = [workload.batches(1000 * seed + worker) for worker in range(workers)]
        self._rows = rows
        self._rate = learning_rate
        self.model = self._programs.parameters(jax.random.key(seed))
        self.version = 0
        self._descend = jax.jit(
            lambda model, gradient, rate: jax.tree.map(lambda w, g: w - rate * g[0], model, gradient)
        )
        self._add = jax.jit(lambda model, change, share: jax.tree.map(lambda w, c: w + share * c, model, change))

    def change(self, model: Any, worker: int, steps: int) -> Any:
        """What some steps change on a worker's own copy of a version of the model. Takes its next batches."""
        own = model
        for _ in range(steps):
            batch = jax.tree.map(lambda rows: rows[: self._rows], next(self._batches[worker]))
            _, gradient = self._programs.gradients(own, jax.device_put(batch, self._programs.split))
            own = self._descend(own, gradient, self._rate)
        return self._add(own, model, -1.0)

    def commit(self, changes: Sequence[Any]) -> None:
        """Adds each change's share to the model. Each makes a new version."""
        for change in changes:
            self.model = self._add(self.model, change, 1 / len(self._batches))
        self.version += len(changes)

    def score(self) -> float:
        """The workload's metric on its test set. Not a number if the model has none."""
        score = self._programs.score(self.model, TEST)
        return float("nan") if score is None else score


class Counter:
    """A learner that learns nothing: for studies of time alone."""

    def __init__(self) -> None:
        self.model = None
        self.version = 0

    def change(self, model: None, worker: int, steps: int) -> None:
        """Nothing."""

    def commit(self, changes: Sequence[None]) -> None:
        """Counts versions."""
        self.version += len(changes)

    def score(self) -> float:
        """Not a number."""
        return float("nan")
