"""A character-level decoder in the order of GPT-2: embeddings, blocks of causal attention and an MLP, then a head."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from flax import nnx


@dataclasses.dataclass(frozen=True)
class Size:
    """The number of different characters, the length of a row of text, and the dimensions of the network."""

    vocabulary: int
    length: int = 64
    width: int = 128
    depth: int = 2
    heads: int = 4


class Block(nnx.Module):
    def __init__(self, size: Size, rngs: nnx.Rngs):
        self.before_attention = nnx.LayerNorm(size.width, rngs=rngs)
        self.query = nnx.Linear(size.width, size.width, use_bias=False, rngs=rngs)
        self.key = nnx.Linear(size.width, size.width, use_bias=False, rngs=rngs)
        self.value = nnx.Linear(size.width, size.width, use_bias=False, rngs=rngs)
        self.merge = nnx.Linear(size.width, size.width, use_bias=False, rngs=rngs)
        self.before_network = nnx.LayerNorm(size.width, rngs=rngs)
        self.up = nnx.Linear(size.width, 4 * size.width, use_bias=False, rngs=rngs)
        self.down = nnx.Linear(4 * size.width, size.width, use_bias=False, rngs=rngs)
        self.heads = size.heads

    def __call__(self, x: jax.Array) -> jax.Array:
        """Maps [batch, length, width] to an array of the same shape."""
        y = self.before_attention(x)
        query, key, value = (self._split(part(y)) for part in (self.query, self.key, self.value))
        attended = jax.nn.dot_product_attention(query, key, value, is_causal=True)
        x = x + self.merge(attended.reshape(x.shape))
        return x + self.down(jax.nn.gelu(self.up(self.before_network(x))))

    def _split(self, x: jax.Array) -> jax.Array:
        return x.reshape(*x.shape[:-1], self.heads, -1)


class Decoder(nnx.Module):
    def __init__(self, size: Size, rngs: nnx.Rngs):
        self.characters = nnx.Embed(size.vocabulary, size.width, rngs=rngs)
        self.places = nnx.Embed(size.length, size.width, rngs=rngs)
        self.blocks = nnx.List([Block(size, rngs) for _ in range(size.depth)])
        self.before_head = nnx.LayerNorm(size.width, rngs=rngs)
        self.head = nnx.Linear(size.width, size.vocabulary, use_bias=False, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        """Maps int32 [batch, length] to the logits of the next characters, float32 [batch, length, vocabulary]."""
        x = self.characters(tokens) + self.places(jnp.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.before_head(x))
