"""The base class of the two image classifiers: data, loss, metric and optimizer."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import optax

from experiments.data import digits
from experiments.workloads.base import Lengths, Workload, in_batches, sgd, shuffled


class DigitClassifier(Workload):
    """Trains on 3,500 MNIST digits, shifted by up to two pixels, and tests on 1,000 others."""

    metric = "top-1 accuracy (%)"
    lengths = Lengths(small=400, large=1500)
    learning_rate: float

    def __init__(self, size: str = "small") -> None:
        super().__init__(size)
        self.rows = digits.load()
        self.batch_size = 128 if self.large else 64

    def loss(self, network, batch):
        logits = network(batch["images"])
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch["labels"]).mean()

    def batches(self, seed):
        rng = np.random.default_rng((seed, 1))
        for batch in shuffled(self.rows.train, self.batch_size, seed):
            yield {**batch, "images": np.roll(batch["images"], rng.integers(-2, 3, 2), axis=(1, 2))}

    def held_out(self, split):
        return in_batches(getattr(self.rows, split), 250)

    def predict(self, network, batch):
        return (network(batch["images"]).argmax(-1) == batch["labels"]).astype(jnp.float32)

    def score(self, predictions):
        return float(100 * np.mean(predictions))

    def optimizer(self, steps, momentum):
        return sgd(self.learning_rate, steps, momentum)
