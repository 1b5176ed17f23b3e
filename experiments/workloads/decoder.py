"""A decoder-only transformer that predicts the next character, and its fine-tuning by low-rank adapters."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

from examples.gpt.model import Decoder, Size
from experiments.data import shakespeare
from experiments.data.splits import Splits
from experiments.workloads.base import Lengths, adam
from experiments.workloads.next_token import NextToken

RANK = 8


class NextCharacter(NextToken):
    """The data and the metric of both workloads of this file."""

    spelling: str
    metric = "bits a character"
    revision = 2  # before, Milton's works were among Shakespeare's, and all that models were scored by

    def __init__(self, size: str = "small") -> None:
        super().__init__(size)
        text, alphabet = shakespeare.characters(self.spelling)
        self.size = size_of(alphabet, self.large)
        self.rows = Splits(*({"tokens": shakespeare.windows(side, self.size.length + 1)} for side in text))
        self.batch_size = 64 if self.large else 16

    def score(self, predictions):
        return float(np.mean(predictions, dtype=np.float64) / math.log(2))


class Shakespeare(NextCharacter):
    cousin_of = "GPT-2, in the size that nanoGPT trains on Shakespeare's characters"
    differs = (
        "The decoder of examples/gpt: four layers of width 192 and windows of 64 characters (large: six layers of "
        "width 384, 256 characters), no biases in dense layers, no dropout. The paper trains no decoder."
    )
    lengths = Lengths(small=1500, large=5000)
    spelling = shakespeare.MODERN

    def network(self, rngs: nnx.Rngs) -> nnx.Module:
        return Decoder(self.size, rngs)

    def logits(self, network, text):
        return network(text)

    def optimizer(self, steps, momentum):
        return adam(1e-3, steps, momentum)


class Adapters(nnx.Module):
    """For the queries and values of each layer a matrix of low rank, the product of `down` and `up`.

    `up` begins as zeros, so the network begins as the base (Hu et al., LoRA, ICLR 2022, section 4).
    """

    def __init__(self, size: Size, rngs: nnx.Rngs) -> None:
        places = size.depth, 2
        init = nnx.initializers.normal(1 / math.sqrt(size.width))
        self.down = nnx.Param(init(rngs.params(), (*places, size.width, RANK)))
        self.up = nnx.Param(jnp.zeros((*places, RANK, size.width)))

    def added_to(self, base: Any) -> Any:
        """Returns the base's parameters, a nested dict, with the adapters' products added to the kernels."""
        products = self.down[...] @ self.up[...]
        blocks = {
            number: block
            | {
                name: block[name] | {"kernel": block[name]["kernel"] + products[number, place]}
                for place, name in enumerate(("query", "value"))
            }
            for number, block in base["blocks"].items()
        }
        return base | {"blocks": blocks}


class LoRA(NextCharacter):
    cousin_of = "LoRA on GPT-2"
    differs = (
        "The workload decoder, trained in float32 on modern spelling, learns the spelling of the First Folio by "
        "matrices of rank 8 in queries and values. Most plays are the same ones; their letters are new. The paper "
        "tunes no adapters."
    )
    lengths = Lengths(small=600, large=2000)
    spelling = shakespeare.FOLIO

    def __init__(self, size: str = "small") -> None:
        from experiments.pretrained import parameters  # it trains a workload

        super().__init__(size)
        self.use_base(parameters(Shakespeare(size)))

    def use_base(self, base: Any) -> None:
        """Sets the parameters that the adapters change, a nested dict."""
        self._base = base
        self._graph = nnx.graphdef(nnx.eval_shape(lambda: Decoder(self.size, nnx.Rngs(0))))

    def network(self, rngs: nnx.Rngs) -> nnx.Module:
        return Adapters(self.size, rngs)

    def logits(self, network, text):
        return nnx.merge(self._graph, nnx.State(network.added_to(self._base)))(text)

    def optimizer(self, steps, momentum):
        return adam(1e-2, steps, momentum)


def size_of(alphabet: int, large: bool) -> Size:
    if large:
        return Size(alphabet, length=256, width=384, depth=6, heads=6)
    return Size(alphabet, length=64, width=192, depth=4, heads=4)
