"""Replays a training from the number of members in each step, in one process and without jaxina's engine.

Each step computes the shares of all members one after the other, and sums them by `jaxina.numerics`, the readable
reference of the arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from train import Training, hash_of

from jaxina.elastic import Turn
from jaxina.numerics import all_reduce_reference


def replay(sizes: Sequence[int]) -> str:
    """Returns the hash of the parameters after ``len(sizes)`` steps. Step i is that of ``sizes[i]`` members."""
    training = Training(all_reduce=lambda total: total)  # what the update gets is summed already
    state = training.first_state()
    for step, size in enumerate(sizes):
        shares = [training.share(state, Turn(step, rank, size, generation=0)) for rank in range(size)]
        state, _ = training.update(state, jax.tree.map(_sum, *shares))
    return hash_of(state)


def _sum(*shares: Any) -> np.ndarray:
    if len(shares) == 1:
        return np.asarray(shares[0])  # one member sums nothing
    return all_reduce_reference([np.asarray(share) for share in shares]).reshape(np.shape(shares[0]))
