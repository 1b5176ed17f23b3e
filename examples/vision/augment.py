"""Shifts images at random."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def shifted(images: jax.Array, key: jax.Array, most: int) -> jax.Array:
    """Shifts each image of float32 [n, h, w, c] by up to `most` pixels in each direction, and fills up with zeros."""
    n, height, width, channels = images.shape
    padded = jnp.pad(images, ((0, 0), (most, most), (most, most), (0, 0)))
    starts = jax.random.randint(key, (n, 2), 0, 2 * most + 1)

    def cut(image: jax.Array, start: jax.Array) -> jax.Array:
        return jax.lax.dynamic_slice(image, (start[0], start[1], 0), (height, width, channels))

    return jax.vmap(cut)(padded, starts)
