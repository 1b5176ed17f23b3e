"""A small image-to-image GAN, which makes sharp digits from coarse ones."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from experiments.data import digits
from experiments.data.splits import Splits
from experiments.workloads.base import Lengths, Workload, in_batches, shuffled

_COARSE = 4  # a 28 x 28 digit becomes 7 x 7
_PIXELS = 20.0  # weight of the distance to the true picture; the judge's verdict has weight 1


class Generator(nnx.Module):
    """Adds details to the coarse picture: convolutions at 7 x 7, at 14 x 14, and an output of 28 x 28."""

    def __init__(self, width: int, rngs: nnx.Rngs) -> None:
        self.first = nnx.Conv(1, 2 * width, (3, 3), rngs=rngs)
        self.second = nnx.Conv(2 * width, 2 * width, (3, 3), rngs=rngs)
        self.larger = nnx.Conv(2 * width, 4 * width, (3, 3), rngs=rngs)
        self.largest = nnx.Conv(width, 4, (3, 3), rngs=rngs)

    def __call__(self, coarse: jax.Array) -> jax.Array:
        """Maps float32 [n, 7, 7, 1] to [n, 28, 28, 1]."""
        x = nnx.relu(self.second(nnx.relu(self.first(coarse))))
        x = nnx.relu(doubled(self.larger(x)))
        return enlarged(coarse) + doubled(self.largest(x))


class Judge(nnx.Module):
    """Judges whether a picture is the real sharp version of a coarse one. It returns a logit for each patch."""

    def __init__(self, width: int, rngs: nnx.Rngs) -> None:
        self.first = nnx.Conv(2, width, (4, 4), strides=(2, 2), rngs=rngs)
        self.second = nnx.Conv(width, 2 * width, (4, 4), strides=(2, 2), rngs=rngs)
        self.out = nnx.Conv(2 * width, 1, (3, 3), rngs=rngs)

    def __call__(self, coarse: jax.Array, picture: jax.Array) -> jax.Array:
        """Maps float32 [n, 7, 7, 1] and [n, 28, 28, 1] to [n, 7, 7, 1]."""
        both = jnp.concatenate([enlarged(coarse), picture], axis=-1)
        return self.out(nnx.leaky_relu(self.second(nnx.leaky_relu(self.first(both), 0.2)), 0.2))


class Pair(nnx.Module):
    def __init__(self, width: int, rngs: nnx.Rngs) -> None:
        self.generator = Generator(width, rngs)
        self.judge = Judge(width, rngs)


class GAN(Workload):
    cousin_of = "UGATIT on selfie2anime"
    differs = (
        "From coarse to sharp MNIST digits, with pairs of pictures, a distance to the true one, one generator and one "
        "judge; no cycles, no attention. Both players move at once."
    )
    metric = "mean absolute error (%)"
    higher_is_better = False
    lengths = Lengths(small=300, large=4000)

    def __init__(self, size: str = "small") -> None:
        super().__init__(size)
        self.rows = Splits(*({"images": side["images"], "coarse": coarse(side["images"])} for side in digits.load()))
        self.batch_size = 32

    def network(self, rngs: nnx.Rngs) -> nnx.Module:
        return Pair(32 if self.large else 8, rngs)

    def loss(self, network, batch):
        """Returns the generator's loss plus the judge's. Neither loss has a gradient for the other network."""
        picture = network.generator(batch["coarse"])
        fooled = _frozen(network.judge)(batch["coarse"], picture)
        real = network.judge(batch["coarse"], batch["images"])
        false = network.judge(batch["coarse"], jax.lax.stop_gradient(picture))
        generator = optax.sigmoid_binary_cross_entropy(fooled, 1.0).mean()
        judge = (optax.sigmoid_binary_cross_entropy(real, 1.0) + optax.sigmoid_binary_cross_entropy(false, 0.0)).mean()
        return generator + judge + _PIXELS * jnp.abs(picture - batch["images"]).mean()

    def batches(self, seed):
        return shuffled(self.rows.train, self.batch_size, seed)

    def held_out(self, split):
        return in_batches(getattr(self.rows, split), 250)

    def predict(self, network, batch):
        return jnp.abs(network.generator(batch["coarse"]) - batch["images"]).mean((1, 2, 3))

    def score(self, predictions):
        return float(100 * np.mean(predictions))

    def optimizer(self, steps, momentum):
        return optax.adam(2e-3, b1=0.5 if momentum else 0.0)  # GANs usually have less momentum than 0.9


def coarse(images: np.ndarray) -> np.ndarray:
    """Maps float32 [n, 28, 28, 1] to the means of 4 x 4 pixels, [n, 7, 7, 1]."""
    side = images.shape[1] // _COARSE
    return images.reshape(-1, side, _COARSE, side, _COARSE, 1).mean((2, 4))


def enlarged(pictures: jax.Array) -> jax.Array:
    """Maps [n, 7, 7, 1] to [n, 28, 28, 1]. Every pixel becomes a square of 4 x 4."""
    return jnp.repeat(jnp.repeat(pictures, _COARSE, 1), _COARSE, 2)


def doubled(x: jax.Array) -> jax.Array:
    """Doubles height and width. Every four channels become a square of 2 x 2 pixels."""
    n, height, width, channels = x.shape
    squares = x.reshape(n, height, width, 2, 2, channels // 4).transpose(0, 1, 3, 2, 4, 5)
    return squares.reshape(n, 2 * height, 2 * width, channels // 4)


def _frozen(module: nnx.Module) -> nnx.Module:
    graph, state = nnx.split(module)
    return nnx.merge(graph, jax.lax.stop_gradient(state))
