"""The network of `examples/unequal_links`, trained in virtual time: the same digits, batches and steps."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))
sys.path.append(str(Path(__file__).resolve().parents[2] / "examples/unequal_links"))

from shared.digits import load_digits, shuffled_batches
from train import Task

BYTES = 4 * Task(0).first.size
"""Of the model, and of an update."""


class ExampleTask:
    """A learner. See `experiments.fabric.learner.AnyLearner`.

    Args:
      workers: each has its own part of the digits.
      seed: of the parameters and the batches.
      batch_size, learning_rate: of a worker's step.
    """

    def __init__(self, workers: int, seed: int, batch_size: int = 32, learning_rate: float = 0.1) -> None:
        self._task = Task(seed)
        self._workers = workers
        self._rate = learning_rate
        training, self._test = load_digits()
        parts = [training[np.arange(rank, len(training), workers)] for rank in range(workers)]
        self._batches = [shuffled_batches(part, batch_size, 1000 * seed + rank) for rank, part in enumerate(parts)]
        self._step = jax.jit(self._task.step)
        self.model = self._task.first
        self.version = 0

    def change(self, model: np.ndarray, worker: int, steps: int) -> np.ndarray:
        """What some steps change on a worker's own copy: its share of a round's mean, float32[parameters]."""
        own = jnp.asarray(model)
        for digits in itertools.islice(self._batches[worker], steps):
            own = self._step(own, (digits.images, digits.labels), self._rate)
        return (np.asarray(own) - model) / np.float32(self._workers)

    def commit(self, changes: Sequence[np.ndarray]) -> None:
        """Adds changes to the model."""
        self.model = sum(changes, self.model)
        self.version += len(changes)

    def score(self) -> float:
        """The accuracy on the test digits, from 0 to 1."""
        return self._task.accuracy(self.model, self._test)
