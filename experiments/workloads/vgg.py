"""A plain convolutional network. Most of its parameters are in its dense layers."""

from __future__ import annotations

import jax
from flax import nnx

from experiments.workloads.digits import DigitClassifier


class PlainNetwork(nnx.Module):
    def __init__(self, width: int, hidden: int, rngs: nnx.Rngs) -> None:
        self.conv1 = nnx.Conv(1, width, (3, 3), strides=(2, 2), rngs=rngs)
        self.conv2 = nnx.Conv(width, width, (3, 3), rngs=rngs)
        self.conv3 = nnx.Conv(width, 2 * width, (3, 3), rngs=rngs)
        self.dense1 = nnx.Linear(7 * 7 * 2 * width, hidden, rngs=rngs)
        self.dense2 = nnx.Linear(hidden, hidden, rngs=rngs)
        self.out = nnx.Linear(hidden, 10, rngs=rngs)

    def __call__(self, images: jax.Array) -> jax.Array:
        """Maps float32 [n, 28, 28, 1] to logits [n, 10]."""
        x = nnx.relu(self.conv2(nnx.relu(self.conv1(images))))
        x = nnx.max_pool(nnx.relu(self.conv3(x)), (2, 2), strides=(2, 2))
        x = nnx.relu(self.dense1(x.reshape(len(x), -1)))
        return self.out(nnx.relu(self.dense2(x)))


class VGG(DigitClassifier):
    cousin_of = "VGG19 on ImageNet-1K"
    differs = (
        "5,000 MNIST digits, three convolutions (the first with stride two) and three dense layers; as in VGG, the "
        "dense layers hold over nine tenths of the parameters. No dropout."
    )
    learning_rate = 0.03

    def network(self, rngs: nnx.Rngs) -> nnx.Module:
        return PlainNetwork(32, 512, rngs) if self.large else PlainNetwork(8, 128, rngs)
