"""The random numbers for stochastic rounding, in NumPy: SplitMix64, whose numbers can be made in any order.

Each number depends on a seed and its own index alone. So what is rounded where, and when, changes no bit.

The seeds of one collective come from the user's seed by `Seeds`:

* ``s1 = random64(user's seed, number of the collective)``;
* up, of the device with rank g among all devices (place j of worker p has rank p D + j): ``random64(s1, 1 + g)``;
* within worker p: ``random64(s1, 2^32 + p)``;
* down: ``random64(s1, 0)``.

Source: Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

GOLDEN_GAMMA = 0x9E3779B97F4A7C15
FIRST_FACTOR = 0xBF58476D1CE4E5B9
SECOND_FACTOR = 0x94D049BB133111EB
WITHIN_WORKER = 2**32
"""Index of the first worker's seed for the sum of its devices."""

_MASK = 2**64 - 1


def random64(seed: int, index: int) -> int:
    """Makes the number `index`, counted from 0, that SplitMix64 gives when it starts at `seed`.

    Args:
      seed: 64 bits.
      index: 64 bits.

    Returns:
      64 bits.

    Example:
      >>> from jaxina import numerics
      >>> hex(numerics.random64(0, 0))
      '0xe220a8397b1dcdaf'
    """
    z = (seed + (index + 1) * GOLDEN_GAMMA) & _MASK
    z = ((z ^ (z >> 30)) * FIRST_FACTOR) & _MASK
    z = ((z ^ (z >> 27)) * SECOND_FACTOR) & _MASK
    return z ^ (z >> 31)


def random_words(seed: int, count: int, first: int = 0) -> npt.NDArray[np.uint32]:
    """Makes the random numbers of elements that follow each other: the upper halves of SplitMix64's.

    Args:
      seed: 64 bits.
      count: how many numbers to make.
      first: the index of the first element.

    Returns:
      uint32[count]: ``random64(seed, first + i) >> 32`` for each i.
    """
    index = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(first)
    z = np.uint64(seed) + index * np.uint64(GOLDEN_GAMMA)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(FIRST_FACTOR)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(SECOND_FACTOR)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(32)).astype(np.uint32)


@dataclasses.dataclass(frozen=True)
class Seeds:
    """The seeds of one collective.

    Attributes:
      seed: the user's, 64 bits.
      collective: the number of the collective in its job, from 0.
    """

    seed: int
    collective: int = 0

    @property
    def own(self) -> int:
        """s1, from which the others are made."""
        return random64(self.seed, self.collective)

    def up(self, rank: int) -> int:
        """The seed with which the device of that rank rounds to words."""
        return random64(self.own, 1 + rank)

    def within(self, worker: int) -> int:
        """The seed with which that worker rounds the sum of its devices' words."""
        return random64(self.own, WITHIN_WORKER + worker)

    @property
    def down(self) -> int:
        """The seed with which the aggregator rounds the sum of the workers' words."""
        return random64(self.own, 0)
