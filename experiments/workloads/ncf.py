"""Neural collaborative filtering on MovieLens."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from experiments.data import movielens
from experiments.workloads.base import Lengths, Workload, adam

NEGATIVES = 4  # for each interaction


class NeuMF(nnx.Module):
    """Products of embeddings beside a dense network (He et al., Neural Collaborative Filtering, WWW 2017)."""

    def __init__(self, users: int, items: int, width: int, rngs: nnx.Rngs) -> None:
        def table(rows: int) -> nnx.Embed:
            return nnx.Embed(rows, width, embedding_init=nnx.initializers.normal(0.05), rngs=rngs)

        self.user_product, self.item_product = table(users), table(items)
        self.user_dense, self.item_dense = table(users), table(items)
        self.dense1 = nnx.Linear(2 * width, width, rngs=rngs)
        self.dense2 = nnx.Linear(width, width // 2, rngs=rngs)
        self.out = nnx.Linear(width + width // 2, 1, rngs=rngs)

    def __call__(self, users: jax.Array, items: jax.Array) -> jax.Array:
        """Maps two arrays int32 [...] to logits [...]."""
        product = self.user_product(users) * self.item_product(items)
        x = jnp.concatenate([self.user_dense(users), self.item_dense(items)], axis=-1)
        x = nnx.relu(self.dense2(nnx.relu(self.dense1(x))))
        return self.out(jnp.concatenate([product, x], axis=-1))[..., 0]


class NCF(Workload):
    cousin_of = "NCF (NeuMF) on MovieLens 20M"
    differs = "MovieLens 100k: 943 users, 1,682 films. Batches of 2,048 instead of 2^17; not pre-trained."
    metric = "hit rate at 10"
    lengths = Lengths(small=800, large=4000)
    revision = 2  # before, no film of the held-out splits was drawn as a negative

    def __init__(self, size: str = "small") -> None:
        super().__init__(size)
        self.data = movielens.load()
        self.batch_size = 2048

    def network(self, rngs: nnx.Rngs) -> nnx.Module:
        return NeuMF(self.data.users, self.data.items, 64 if self.large else 16, rngs)

    def loss(self, network, batch):
        logits = network(batch["users"], batch["items"])
        return optax.sigmoid_binary_cross_entropy(logits, batch["liked"]).mean()

    def batches(self, seed):
        """A fifth of each batch are interactions. The rest are items with which the user has no interaction to train
        with, drawn at random. As in He et al. (2017), the user's held-out items may be among them.
        """
        rng = np.random.default_rng(seed)
        positives = -(-self.batch_size // (1 + NEGATIVES))
        while True:
            order = rng.permutation(len(self.data.pairs))
            for start in range(0, len(order) - positives + 1, positives):
                pairs = self.data.pairs[order[start : start + positives]]
                users = np.tile(pairs[:, 0], 1 + NEGATIVES)[: self.batch_size]
                items = np.concatenate([pairs[:, 1], self._unknown(users[positives:], rng)])
                liked = (np.arange(self.batch_size) < positives).astype(np.float32)
                mixed = rng.permutation(self.batch_size)  # every worker gets its share of both
                yield {"users": users[mixed], "items": items[mixed], "liked": liked[mixed]}

    def _unknown(self, users: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        items = rng.integers(0, self.data.items, len(users), dtype=np.int32)
        while (again := self.data.known[users, items]).any():
            items[again] = rng.integers(0, self.data.items, int(again.sum()), dtype=np.int32)
        return items

    def held_out(self, split):
        users = np.arange(self.data.users, dtype=np.int32)
        return [{"users": np.repeat(users[:, None], movielens.CANDIDATES, 1), "items": getattr(self.data, split)}]

    def predict(self, network, batch):
        return network(batch["users"], batch["items"])

    def score(self, predictions):
        """Returns the share of users whose held-out film, in column 0, is among the ten highest of the hundred.

        A tie counts against the film, and so does NaN. So a network that gives all films the same score hits nothing.
        """
        (logits,) = predictions
        above = (~(logits[:, 1:] < logits[:, :1])).sum(axis=1)
        return float((above < 10).mean())

    def optimizer(self, steps, momentum):
        return adam(1.6e-2, steps, momentum)
