"""A residual network for digits."""

from __future__ import annotations

import jax
from flax import nnx

from experiments.workloads.base import adam
from experiments.workloads.digits import DigitClassifier


class Residual(nnx.Module):
    """Two 3 x 3 convolutions beside the identity, or beside a 1 x 1 convolution if the shape changes."""

    def __init__(self, before: int, after: int, stride: int, rngs: nnx.Rngs) -> None:
        def conv(channels: int, size: int, step: int) -> nnx.Conv:
            return nnx.Conv(channels, after, (size, size), strides=(step, step), use_bias=False, rngs=rngs)

        self.conv1, self.conv2 = conv(before, 3, stride), conv(after, 3, 1)
        self.norm1, self.norm2 = (nnx.GroupNorm(after, 4, rngs=rngs) for _ in range(2))
        self.shortcut = conv(before, 1, stride) if (before, stride) != (after, 1) else None

    def __call__(self, x: jax.Array) -> jax.Array:
        y = self.norm2(self.conv2(nnx.relu(self.norm1(self.conv1(x)))))
        return nnx.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class ResidualNetwork(nnx.Module):
    def __init__(self, widths: tuple[int, ...], depth: int, rngs: nnx.Rngs) -> None:
        self.stem = nnx.Conv(1, widths[0], (3, 3), strides=(2, 2), rngs=rngs)
        before, blocks = widths[0], []
        for stage, width in enumerate(widths):
            for number in range(depth):
                blocks.append(Residual(before, width, 2 if stage and not number else 1, rngs))
                before = width
        self.blocks = nnx.List(blocks)
        self.out = nnx.Linear(before, 10, rngs=rngs)

    def __call__(self, images: jax.Array) -> jax.Array:
        """Maps float32 [n, 28, 28, 1] to logits [n, 10]."""
        x = nnx.relu(self.stem(images))
        for block in self.blocks:
            x = block(x)
        return self.out(x.mean((1, 2)))


class ResNet(DigitClassifier):
    cousin_of = "ResNet-50 on ImageNet-1K"
    differs = (
        "5,000 MNIST digits, six weighted layers in two stages, no bottlenecks; group normalisation instead of batch "
        "normalisation, so that parameters are all there is to a model."
    )
    learning_rate = 1e-2

    def network(self, rngs: nnx.Rngs) -> nnx.Module:
        return ResidualNetwork((16, 32, 64), 2, rngs) if self.large else ResidualNetwork((16, 32), 1, rngs)

    def optimizer(self, steps, momentum):
        return adam(self.learning_rate, steps, momentum)
