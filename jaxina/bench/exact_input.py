"""Inputs whose float32 sum is exact and tells every element, rank and turn from its neighbours."""

from __future__ import annotations

import numpy as np

_PERIOD = 127  # prime, so that no block or chunk length is a multiple of it
TURNS = 2


def rank_input(elements: int, rank: int, turn: int) -> np.ndarray:
    """float32[elements] of integers from -63 to 63 + TURNS; `turn` tells two runs apart, so that a
    result left over from the one before is found."""
    return _pattern(elements, rank) + np.float32(turn)


def exact_sum(elements: int, ranks: int, turn: int) -> np.ndarray:
    """float32[elements]: what the sum over all ranks must be. Exact: below 2^24 in size."""
    total = np.full(elements, ranks * turn, np.float32)
    for rank in range(ranks):
        total += _pattern(elements, rank)
    return total


def _pattern(elements: int, rank: int) -> np.ndarray:
    index = np.arange(elements, dtype=np.int32)
    # The middle term makes periods differ from one stretch of 4096 elements to the next.
    mixed = (index % _PERIOD) * 31 + (index >> 12) % _PERIOD * 7 + rank * 17
    return (mixed % _PERIOD - _PERIOD // 2).astype(np.float32)


def first_difference(result: np.ndarray, expected: np.ndarray) -> int | None:
    """The first index at which they differ; None if they are equal."""
    if np.array_equal(result, expected):
        return None
    return int(np.argmax(result != expected))
