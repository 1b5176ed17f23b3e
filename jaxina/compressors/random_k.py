"""Random-k: sends the elements at random places, which are the same on all workers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from jaxina.compressors.base import SUM, Arrays, Compressor, Context, Promise
from jaxina.compressors.packing import Field, floats
from jaxina.compressors.sparse import check_ratio, kept


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomK(Compressor):
    """Random-k: sends elements at random places, times d / k, which makes the result unbiased.

    Of d elements it sends k = max(1, ceil(ratio d)). With error feedback they are not scaled, because the factor d / k
    would make the error grow.

    The array, as a ring that begins at a random place, is cut into k stretches of equal length, or with one element
    more. One element of each is drawn. So every element is sent with probability k / d, and the expectation and the
    variance are those of k elements drawn uniformly without replacement. Unlike there, two elements of a stretch are
    never sent together. It takes k + 1 random numbers, where a permutation takes d and sorts them. All are drawn with
    the shared key.

    Source: Stich et al., NeurIPS 2018 (with memory, not scaled); Wangni et al., NeurIPS 2018 (scaled).

    Attributes:
      ratio: share of the array's elements that is sent, above 0 and at most 1.
    """

    ratio: float = 0.01

    promise = Promise(
        title="random-k, shared seed",
        paper="Stich et al., Sparsified SGD with Memory, NeurIPS 2018; Wangni et al., Gradient Sparsification for "
        "Communication-Efficient Distributed Optimization, NeurIPS 2018",
        unbiased=True,
        error_feedback="off",
        note="Biased with error feedback. No indices are sent. One element is drawn from each of k equal stretches of "
        "the array. The variance is (d / k - 1) |x|^2, as if the elements were drawn from the whole array.",
    )
    kind = SUM

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ratio(self.ratio)

    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        return {"values": x.reshape(-1)[self._places(context)]}, state

    def decode(self, payload: Arrays, context: Context) -> jax.Array:
        places = self._places(context)
        scale = 1.0 if self.error_feedback else context.size / places.size
        flat = jnp.zeros(context.size, jnp.float32).at[places].set(scale * payload["values"], unique_indices=True)
        return flat.reshape(context.shape)

    def fields(self, context: Context, summed: bool) -> Mapping[str, Field]:
        return {"values": floats()}

    def _places(self, context: Context) -> jax.Array:
        size = context.size
        k = kept(self.ratio, size)
        length, longer = divmod(size, k)  # the first `longer` stretches have one element more
        stretch = jnp.arange(k, dtype=jnp.int32)
        first, inside = jax.random.split(context.shared_key)
        lengths = length + (stretch < longer).astype(jnp.int32)
        place = stretch * length + jnp.minimum(stretch, longer) + jax.random.randint(inside, (k,), 0, lengths)
        start = jax.random.randint(first, (), 0, size)
        return jnp.where(place < size - start, place + start, place - (size - start))  # no sum exceeds int32
