"""The interface between a workload and the trainer, and the optimizers and batches that several workloads use."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import jax
import numpy as np
import optax
from flax import nnx

Batch = dict[str, np.ndarray]

SIZES = ("small", "large")

VALIDATION = "validation"
"""What learning rates are chosen by. No model is trained with it."""

TEST = "test"
"""What results are scored by. No multiple of a learning rate is chosen by it."""


class Lengths(NamedTuple):
    """The number of steps of a run, by size."""

    small: int
    large: int


class Workload(abc.ABC):
    """A model, its data and its metric.

    Attributes:
      cousin_of: the paper's model and data set that this workload imitates.
      differs: how it differs from them.
      metric: the name of the number that `score` returns.
      higher_is_better: whether a larger score is better.
      lengths: the number of steps of a run, by size.
      revision: counts the changes of the data, the model or the metric after which older runs do not compare any more.
      steps: the number of steps of a run of this size.
      batch_size: the number of rows in a step, of all workers together.
      base: the SHA-256 of the trained parameters that the model builds on. Runs on different ones are not compared.
        Empty if it builds on none.
    """

    cousin_of: ClassVar[str]
    differs: ClassVar[str]
    metric: ClassVar[str]
    higher_is_better: ClassVar[bool] = True
    lengths: ClassVar[Lengths]
    revision: ClassVar[int] = 1
    steps: int
    batch_size: int
    base: str = ""

    def __init__(self, size: str = "small") -> None:
        if size not in SIZES:
            raise ValueError(f"the size is one of {', '.join(SIZES)}, not {size!r}")
        self.large = size == "large"
        self.steps = getattr(self.lengths, size)

    @abc.abstractmethod
    def network(self, rngs: nnx.Rngs) -> nnx.Module:
        """Returns the model with new parameters. It must not hold any state besides parameters."""

    @abc.abstractmethod
    def loss(self, network: nnx.Module, batch: dict[str, jax.Array]) -> jax.Array:
        """Returns the mean loss of a batch, float32[]."""

    @abc.abstractmethod
    def batches(self, seed: int) -> Iterator[Batch]:
        """Yields training batches without end: arrays with a leading axis of `batch_size`."""

    @abc.abstractmethod
    def held_out(self, split: str) -> list[Batch]:
        """Returns the rows of VALIDATION or TEST, in batches of one shape."""

    @abc.abstractmethod
    def predict(self, network: nnx.Module, batch: dict[str, jax.Array]) -> jax.Array:
        """Returns what `score` needs of one batch of held-out rows."""

    @abc.abstractmethod
    def score(self, predictions: list[np.ndarray]) -> float:
        """Returns the metric, from the predictions for all batches of a split."""

    @abc.abstractmethod
    def optimizer(self, steps: int, momentum: bool) -> optax.GradientTransformation:
        """Returns the optimizer of a run. Its updates must be proportional to the learning rate, which studies scale.

        Args:
          steps: the length of the learning rate's schedule.
          momentum: False if the compressor applies momentum itself (DGC).
        """


def adam(learning_rate: float, steps: int, momentum: bool) -> optax.GradientTransformation:
    """Adam with a short warm-up, then a cosine decay to a tenth. Without momentum, its first average is off."""
    schedule = optax.warmup_cosine_decay_schedule(0.0, learning_rate, max(1, steps // 20), steps, 0.1 * learning_rate)
    return optax.adam(schedule, b1=0.9 if momentum else 0.0)


def sgd(learning_rate: float, steps: int, momentum: bool) -> optax.GradientTransformation:
    """SGD with momentum 0.9, a short warm-up, then a cosine decay to zero."""
    schedule = optax.warmup_cosine_decay_schedule(0.0, learning_rate, max(1, steps // 20), steps)
    return optax.sgd(schedule, momentum=0.9 if momentum else None)


def shuffled(arrays: Batch, batch_size: int, seed: int) -> Iterator[Batch]:
    """Yields shuffled batches without end. Every epoch has another order and leaves out an incomplete last batch."""
    rows = len(next(iter(arrays.values())))
    epoch = 0
    while True:
        order = np.random.default_rng((seed, epoch)).permutation(rows)
        for start in range(0, rows - batch_size + 1, batch_size):
            chosen = order[start : start + batch_size]
            yield {name: array[chosen] for name, array in arrays.items()}
        epoch += 1


def spread(arrays: Batch, rows: int) -> Batch:
    """Returns so many rows, at equal distances from the first to the last; all if there are no more."""
    there = len(next(iter(arrays.values())))
    chosen = np.arange(min(rows, there)) * there // min(rows, there)
    return {name: array[chosen] for name, array in arrays.items()}


def in_batches(arrays: Batch, batch_size: int) -> list[Batch]:
    """Returns the rows in order, in batches of one size. Rows that do not fill a last batch are left out."""
    rows = len(next(iter(arrays.values())))
    return [
        {name: array[start : start + batch_size] for name, array in arrays.items()}
        for start in range(0, rows - batch_size + 1, batch_size)
    ]
