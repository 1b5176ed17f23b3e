"""What workloads share that predict the next token of a text."""

from __future__ import annotations

import abc

import jax
import optax
from flax import nnx

from experiments.data.splits import Splits
from experiments.workloads.base import Workload, in_batches, shuffled, spread


class NextToken(Workload):
    """A workload whose rows are windows of tokens.

    Attributes:
      rows: each side has "tokens", int32 [rows, length + 1].
    """

    rows: Splits
    higher_is_better = False

    @abc.abstractmethod
    def logits(self, network: nnx.Module, tokens: jax.Array) -> jax.Array:
        """Maps int32 [n, length] to the logits of the tokens that follow each, [n, length, alphabet]."""

    def loss(self, network, batch):
        return self.predict(network, batch).mean()

    def batches(self, seed):
        return shuffled(self.rows.train, self.batch_size, seed)

    def held_out(self, split):
        rows = getattr(self.rows, split)
        return in_batches(rows if self.large else spread(rows, 8 * 64), 64)

    def predict(self, network, batch):
        tokens = batch["tokens"]
        return optax.softmax_cross_entropy_with_integer_labels(self.logits(network, tokens[:, :-1]), tokens[:, 1:])
