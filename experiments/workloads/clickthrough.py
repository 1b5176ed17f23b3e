"""A binary classifier of categorical fields. Nearly all of its parameters are embeddings."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from experiments.data import flights
from experiments.workloads.base import Lengths, Workload, adam, in_batches, shuffled


class FactorizationMachine(nnx.Module):
    """A deep factorization machine: first-order weights, weighted products of field pairs, and a dense network."""

    def __init__(self, categories: int, fields: int, width: int, hidden: int, rngs: nnx.Rngs) -> None:
        self.weights = nnx.Embed(categories, 1, embedding_init=nnx.initializers.zeros_init(), rngs=rngs)
        self.vectors = nnx.Embed(categories, width, embedding_init=nnx.initializers.normal(0.05), rngs=rngs)
        self.pairs = nnx.Param(jnp.zeros((fields, fields)))
        self.dense1 = nnx.Linear(fields * width, hidden, rngs=rngs)
        self.dense2 = nnx.Linear(hidden, hidden, rngs=rngs)
        self.out = nnx.Linear(hidden, 1, rngs=rngs)

    def __call__(self, fields: jax.Array) -> jax.Array:
        """Maps int32 [n, fields] to logits [n]."""
        vectors = self.vectors(fields)
        products = jnp.einsum("nfw,ngw->nfg", vectors, vectors)
        second = (products * jnp.triu(1 + self.pairs[...], 1)).sum((1, 2))
        x = nnx.relu(self.dense1(vectors.reshape(len(fields), -1)))
        x = nnx.relu(self.dense2(x))
        return self.weights(fields).sum((1, 2)) + second + self.out(x)[:, 0]


class ClickThrough(Workload):
    cousin_of = "DeepLight (DeepFwFM) on Criteo 1TB"
    differs = (
        "Late flights from New York stand in for clicks: 327,346 rows and ten categorical fields, not 4 billion and "
        "39. Field-weighted pairs and a dense network as in DeepFwFM, no pruning."
    )
    metric = "AUC"
    lengths = Lengths(small=240, large=1500)

    def __init__(self, size: str = "small") -> None:
        super().__init__(size)
        self.data = flights.load()
        self.batch_size = 2048

    def network(self, rngs: nnx.Rngs) -> nnx.Module:
        width, hidden = (32, 256) if self.large else (4, 32)
        return FactorizationMachine(self.data.categories, len(flights.FIELDS), width, hidden, rngs)

    def loss(self, network, batch):
        return optax.sigmoid_binary_cross_entropy(network(batch["fields"]), batch["late"]).mean()

    def batches(self, seed):
        return shuffled(self.data.rows.train, self.batch_size, seed)

    def held_out(self, split):
        return in_batches(getattr(self.data.rows, split), 4096)[: None if self.large else 4]

    def predict(self, network, batch):
        return jnp.stack([network(batch["fields"]), batch["late"]], axis=1)

    def score(self, predictions):
        logits, late = np.concatenate(predictions).T
        return area_under_curve(logits, late > 0.5)

    def optimizer(self, steps, momentum):
        return adam(2e-2, steps, momentum)


def area_under_curve(scores: np.ndarray, positive: np.ndarray) -> float:
    """Returns the probability that a positive row scores above a negative one. A tie counts half."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[inverse]  # ties share the mean of their ranks
    positives = int(positive.sum())
    negatives = len(scores) - positives
    return float((rank[positive].sum() - positives * (positives + 1) / 2) / (positives * negatives))
