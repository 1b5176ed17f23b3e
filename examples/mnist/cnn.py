"""A small convolutional network for 28 x 28 grey digits."""

from __future__ import annotations

import jax
from flax import nnx


class CNN(nnx.Module):
    """Two convolutions and two dense layers, 106,122 parameters."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.conv1 = nnx.Conv(1, 16, kernel_size=(5, 5), strides=(2, 2), rngs=rngs)  # half the size: quick on a CPU
        self.conv2 = nnx.Conv(16, 32, kernel_size=(3, 3), rngs=rngs)
        self.dense1 = nnx.Linear(7 * 7 * 32, 64, rngs=rngs)
        self.dense2 = nnx.Linear(64, 10, rngs=rngs)

    def __call__(self, images: jax.Array) -> jax.Array:
        """Maps images, float32 [n, 28, 28, 1], to logits, float32 [n, 10]."""
        x = nnx.relu(self.conv1(images))
        x = nnx.max_pool(nnx.relu(self.conv2(x)), (2, 2), strides=(2, 2))
        x = nnx.relu(self.dense1(x.reshape(x.shape[0], -1)))
        return self.dense2(x)
