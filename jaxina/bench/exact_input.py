"""Inputs whose sum is exact. They differ between neighbouring elements, ranks and turns, so that mix-ups are found."""

from __future__ import annotations

import numpy as np

from jaxina.bench.dtypes import PERIOD

# After so many elements the inputs repeat.
INPUT_PERIOD = 4096 * PERIOD


def rank_input(elements: int, rank: int, turn: int, dtype: str = "float32") -> np.ndarray:
    """Makes one rank's input: dtype[elements] of integers from -63 to 63 + TURNS.

    Runs with different `turn` have different inputs, so that a result left over from the run before is found.
    """
    return (_pattern(elements, rank) + np.float32(turn)).astype(dtype)


def exact_sum(elements: int, ranks: int, turn: int, dtype: str = "float32") -> np.ndarray:
    """Computes the sum over all ranks: dtype[elements]. It is exact for up to `dtypes.most_ranks(dtype)` ranks."""
    total = np.full(elements, ranks * turn, np.float32)
    for rank in range(ranks):
        total += _pattern(elements, rank)
    return total.astype(dtype)


def _pattern(elements: int, rank: int) -> np.ndarray:
    index = np.arange(elements, dtype=np.int32)
    # The middle term makes the pattern differ from one stretch of 4096 elements to the next.
    mixed = (index % PERIOD) * 31 + (index >> 12) % PERIOD * 7 + rank * 17
    return (mixed % PERIOD - PERIOD // 2).astype(np.float32)


def first_difference(result: np.ndarray, expected: np.ndarray) -> int | None:
    """The first index at which the arrays differ; None if they are equal."""
    if np.array_equal(result, expected):
        return None
    return int(np.argmax(result != expected))
