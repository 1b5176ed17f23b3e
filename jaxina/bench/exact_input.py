"""Inputs whose sum is exact and tells every element, rank and turn from its neighbours."""

from __future__ import annotations

import numpy as np

_PERIOD = 127  # prime, so that no block or chunk length is a multiple of it
TURNS = 2
# Every integer up to this is one of the type's values.
_EXACT_TO = {"float32": 2**24, "int32": 2**31 - 1, "float16": 2**11}
DTYPES = tuple(_EXACT_TO)


def most_ranks(dtype: str) -> int:
    """How many ranks' sum is exact."""
    return _EXACT_TO[dtype] // (_PERIOD // 2 + TURNS)


def rank_input(elements: int, rank: int, turn: int, dtype: str = "float32") -> np.ndarray:
    """dtype[elements] of integers from -63 to 63 + TURNS; `turn` tells two runs apart, so that a
    result left over from the one before is found."""
    return (_pattern(elements, rank) + np.float32(turn)).astype(dtype)


def exact_sum(elements: int, ranks: int, turn: int, dtype: str = "float32") -> np.ndarray:
    """dtype[elements]: what the sum over all ranks must be. Exact for up to most_ranks(dtype)."""
    total = np.full(elements, ranks * turn, np.float32)
    for rank in range(ranks):
        total += _pattern(elements, rank)
    return total.astype(dtype)


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
