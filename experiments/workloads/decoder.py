"""A decoder-only transformer that predicts the next character, and its fine-tuning by low-rank adapters."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx, traverse_util

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


class LowRank(nnx.Module):
    """A square matrix of low rank, the product of `down` and `up`.

    `up` begins as zeros, so the network begins as the base (Hu et al., LoRA, ICLR 2022, section 4).
    """

    def __init__(self, width: int, rngs: nnx.Rngs) -> None:
        init = nnx.initializers.normal(1 / math.sqrt(width))
        self.down = nnx.Param(init(rngs.params(), (width, RANK)))
        self.up = nnx.Param(jnp.zeros((RANK, width)))

    def product(self) -> jax.Array:
        return self.down[...] @ self.up[...]


class LayerAdapters(nnx.Module):
    """What is added to the kernels of one layer."""

    def __init__(self, width: int, rngs: nnx.Rngs) -> None:
        self.query = LowRank(width, rngs)
        self.value = LowRank(width, rngs)


class Adapters(nnx.Module):
    """What is added to each layer. Every matrix is a leaf of its own, since compressors treat each leaf by itself."""

    def __init__(self, size: Size, rngs: nnx.Rngs) -> None:
        self.layers = nnx.List([LayerAdapters(size.width, rngs) for _ in range(size.depth)])

    def added_to(self, base: Any) -> Any:
        """Returns the base's parameters, a nested dict, with the adapters' products added to the kernels."""
        blocks = {}
        for number, block in base["blocks"].items():
            layer = self.layers[number]
            changed = {
                name: block[name] | {"kernel": block[name]["kernel"] + added.product()}
                for name, added in (("query", layer.query), ("value", layer.value))
            }
            blocks[number] = block | changed
        return base | {"blocks": blocks}


class LoRA(NextCharacter):
    cousin_of = "LoRA on GPT-2"
    differs = (
        "The workload decoder, trained in float32 on modern spelling, learns the spelling of the First Folio by "
        "matrices of rank 8 in queries and values. Most plays are the same ones; their letters are new. The decoder "
        "may have read much of the test text in modern spelling. The paper tunes no adapters."
    )
    lengths = Lengths(small=600, large=2000)
    spelling = shakespeare.FOLIO

    def __init__(self, size: str = "small") -> None:
        from experiments.pretrained import parameters  # it trains a workload

        super().__init__(size)
        self._base = parameters(Shakespeare(size))
        self.base = _digest(self._base)
        self._graph = nnx.graphdef(nnx.eval_shape(lambda: Decoder(self.size, nnx.Rngs(0))))

    def network(self, rngs: nnx.Rngs) -> nnx.Module:
        return Adapters(self.size, rngs)

    def logits(self, network, text):
        return nnx.merge(self._graph, nnx.State(network.added_to(self._base)))(text)

    def optimizer(self, steps, momentum):
        return adam(1e-2, steps, momentum)


def _digest(params: Any) -> str:
    """Returns the SHA-256 of a nested dict of arrays: of names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for path, array in sorted(traverse_util.flatten_dict(params).items(), key=str):
        digest.update(f"{path} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def size_of(alphabet: int, large: bool) -> Size:
    if large:
        return Size(alphabet, length=256, width=384, depth=6, heads=6)
    return Size(alphabet, length=64, width=192, depth=4, heads=4)
