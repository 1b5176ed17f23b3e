"""A small transformer encoder that fills in masked characters."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from experiments.data import shakespeare
from experiments.data.splits import Splits
from experiments.workloads.base import Batch, Lengths, Workload, adam, in_batches, shuffled, spread

_LENGTH = 64
_MASKED = 0.15


class Block(nnx.Module):
    """Self-attention and two dense layers, each after a layer normalisation."""

    def __init__(self, width: int, heads: int, rngs: nnx.Rngs) -> None:
        self.norm1 = nnx.LayerNorm(width, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(heads, width, decode=False, rngs=rngs)
        self.norm2 = nnx.LayerNorm(width, rngs=rngs)
        self.dense1 = nnx.Linear(width, 4 * width, rngs=rngs)
        self.dense2 = nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x + self.attention(self.norm1(x))
        return x + self.dense2(nnx.gelu(self.dense1(self.norm2(x))))


class Encoder(nnx.Module):
    """Maps int32 [n, 64] to logits [n, 64, characters]. The number `characters` stands for a masked character."""

    def __init__(self, characters: int, width: int, layers: int, rngs: nnx.Rngs) -> None:
        self.embedding = nnx.Embed(characters + 1, width, embedding_init=nnx.initializers.normal(0.1), rngs=rngs)
        self.position = nnx.Embed(_LENGTH, width, embedding_init=nnx.initializers.normal(0.1), rngs=rngs)
        self.blocks = nnx.List([Block(width, 4, rngs) for _ in range(layers)])
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.out = nnx.Linear(width, characters, rngs=rngs)

    def __call__(self, text: jax.Array) -> jax.Array:
        x = self.embedding(text) + self.position(jnp.arange(text.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))


class MaskedLM(Workload):
    cousin_of = "BERT on SQuAD"
    differs = (
        "Not fine-tuning for questions but masked language modelling from scratch, on Shakespeare's characters: two "
        "layers of width 48, windows of 64 characters, 15 % of them masked."
    )
    metric = "masked accuracy (%)"
    lengths = Lengths(small=3000, large=5000)
    revision = 2  # before, Milton's works were among Shakespeare's, and all that models were scored by

    def __init__(self, size: str = "small") -> None:
        super().__init__(size)
        text, self.characters = shakespeare.characters()
        self.rows = Splits(*(shakespeare.windows(side, _LENGTH) for side in text))
        self.batch_size = 64 if self.large else 16

    def network(self, rngs: nnx.Rngs) -> nnx.Module:
        width, layers = (128, 4) if self.large else (48, 2)
        return Encoder(self.characters, width, layers, rngs)

    def loss(self, network, batch):
        losses = optax.softmax_cross_entropy_with_integer_labels(network(batch["input"]), batch["text"])
        return (losses * batch["hidden"]).sum() / jnp.maximum(batch["hidden"].sum(), 1)

    def batches(self, seed):
        rng = np.random.default_rng((seed, 1))
        for batch in shuffled({"text": self.rows.train}, self.batch_size, seed):
            yield masked(batch["text"], self.characters, rng)

    def held_out(self, split):
        rows = {"text": getattr(self.rows, split)}
        # 4,096 windows hide some 38,000 characters, each of which is right or wrong. Much fewer could not show half a
        # point, the margin of studies.
        text = (rows if self.large else spread(rows, 16 * 256))["text"]
        return in_batches(masked(text, self.characters, np.random.default_rng(2021)), 256)

    def predict(self, network, batch):
        right = network(batch["input"]).argmax(-1) == batch["text"]
        return jnp.stack([right * batch["hidden"], batch["hidden"]])

    def score(self, predictions):
        right, hidden = np.sum(predictions, axis=(0, 2, 3))
        return float(100 * right / hidden)

    def optimizer(self, steps, momentum):
        return adam(3e-3, steps, momentum)


def masked(text: np.ndarray, mask: int, rng: np.random.Generator) -> Batch:
    """Returns "text", "input" (the text with some characters masked) and "hidden" (float32, 1 where it is masked)."""
    hidden = rng.random(text.shape) < _MASKED
    return {"text": text, "input": np.where(hidden, np.int32(mask), text), "hidden": hidden.astype(np.float32)}
