"""A small residual network for 28 x 28 grey digits, in Flax Linen."""

from __future__ import annotations

import flax.linen as nn
import jax


class ResidualNetwork(nn.Module):
    """A convolution, three residual blocks and a dense layer. A BatchNorm follows each convolution.

    Attributes:
      axis: the mesh axis over which BatchNorm averages in training. Its statistics are then those of the global batch.
      widths: the channels of each block. All blocks but the first halve the image.
    """

    axis: str
    widths: tuple[int, ...] = (16, 32, 64)

    @nn.compact
    def __call__(self, images: jax.Array, training: bool) -> jax.Array:
        """Maps images, float32 [n, 28, 28, 1], to logits, float32 [n, 10]."""

        def normalized(x: jax.Array) -> jax.Array:
            return nn.BatchNorm(use_running_average=not training, momentum=0.9, axis_name=self.axis)(x)

        def convolution(width: int, stride: int = 1, kernel: int = 3) -> nn.Conv:
            return nn.Conv(width, (kernel, kernel), (stride, stride), use_bias=False)

        x = nn.relu(normalized(convolution(self.widths[0], stride=2)(images)))  # half the size: quick on a CPU
        for i, width in enumerate(self.widths):
            stride = 1 if i == 0 else 2
            y = nn.relu(normalized(convolution(width, stride)(x)))
            y = normalized(convolution(width)(y))
            kept = x if x.shape == y.shape else normalized(convolution(width, stride, kernel=1)(x))
            x = nn.relu(kept + y)
        return nn.Dense(10)(x.mean((1, 2)))
