"""A word-level LSTM language model."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from experiments.data import shakespeare
from experiments.data.splits import Splits
from experiments.workloads.base import Lengths, adam
from experiments.workloads.next_token import NextToken


class LanguageModel(nnx.Module):
    """Embedding, one LSTM layer, a projection and a softmax over all words."""

    def __init__(self, vocabulary: int, width: int, hidden: int, rngs: nnx.Rngs) -> None:
        self.embedding = nnx.Embed(vocabulary, width, embedding_init=nnx.initializers.normal(0.1), rngs=rngs)
        self.gates = nnx.Linear(width + hidden, 4 * hidden, rngs=rngs)
        self.projection = nnx.Linear(hidden, width, rngs=rngs)
        self.out = nnx.Linear(width, vocabulary, rngs=rngs)
        self.hidden = hidden

    def __call__(self, words: jax.Array) -> jax.Array:
        """Maps int32 [n, length] to logits [n, length, vocabulary] for the word that follows each word."""
        inputs = jnp.swapaxes(self.embedding(words), 0, 1)

        def step(carry: tuple[jax.Array, jax.Array], x: jax.Array):
            cell, output = carry
            gates = self.gates(jnp.concatenate([x, output], axis=-1))
            write, keep, show, content = jnp.split(gates, 4, axis=-1)
            cell = nnx.sigmoid(keep + 1) * cell + nnx.sigmoid(write) * jnp.tanh(content)
            output = nnx.sigmoid(show) * jnp.tanh(cell)
            return (cell, output), output

        zeros = jnp.zeros((len(words), self.hidden))
        _, outputs = jax.lax.scan(step, (zeros, zeros), inputs)
        return self.out(self.projection(jnp.swapaxes(outputs, 0, 1)))


class WordLSTM(NextToken):
    cousin_of = "LSTM language model on the 1 Billion Word benchmark"
    differs = (
        "Shakespeare: a million words, a vocabulary of 1,024, windows of 20 words that start afresh; a full softmax "
        "instead of a sampled one. As there, the embedding and the softmax hold most parameters."
    )
    metric = "perplexity"
    lengths = Lengths(small=2000, large=4000)
    revision = 2  # before, Milton's works were among Shakespeare's, and all that models were scored by

    def __init__(self, size: str = "small") -> None:
        super().__init__(size)
        self.vocabulary = 8192 if self.large else 1024
        text = shakespeare.words(self.vocabulary)
        self.rows = Splits(*({"tokens": shakespeare.windows(side, 21)} for side in text))
        self.batch_size = 32

    def network(self, rngs: nnx.Rngs) -> nnx.Module:
        width, hidden = (128, 512) if self.large else (32, 64)
        return LanguageModel(self.vocabulary, width, hidden, rngs)

    def logits(self, network, tokens):
        return network(tokens)

    def score(self, predictions):
        return float(np.exp(np.mean(predictions, dtype=np.float64)))

    def optimizer(self, steps, momentum):
        return adam(4e-2, steps, momentum)
