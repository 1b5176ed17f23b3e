"""The ways to sum that ``jaxina bench`` times, and what their results must be."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import jaxina
from jaxina import numerics
from jaxina.bench.exact_input import INPUT_PERIOD, exact_sum, first_difference, rank_input


@dataclasses.dataclass(frozen=True)
class Way:
    """A way to sum.

    Attributes:
      name: its name in the results.
      scope: makes the scope in which the program is called.
      dtype: the type of the elements.
      bits: how many bits a word has on the wire.
      stochastic: whether words of 8 and 16 bits are rounded stochastically.
      block: the job's block size, in elements.
    """

    name: str
    scope: Callable[[], Any]
    dtype: str
    bits: int = 32
    stochastic: bool = False
    block: int = numerics.DEFAULT_BLOCK_SIZE

    def first_wrong(self, got: np.ndarray, ranks: int, turn: int) -> tuple[int, str] | None:
        """The index of the first wrong element of this run's result, and what it should be; None if all are right.

        The sums of 8 and 16 bits must be those of `jaxina.numerics`, or within its bound if they are rounded
        stochastically. Those of bfloat16 are rounded in an order that is XLA's choice, once for each rank at most. All
        others are exact.
        """
        if self.dtype == "bfloat16":
            exact = exact_sum(got.size, ranks, turn)
            index = _beyond(got, exact, np.float32(ranks * 2.0**-8 * 64 * ranks))
        elif self.bits >= 32:
            exact = exact_sum(got.size, ranks, turn, self.dtype)
            index = first_difference(got, exact)
        elif self.stochastic:
            exact = exact_sum(got.size, ranks, turn)
            index = _beyond(got, exact, self._bound(got.size, ranks, turn))
        else:
            exact = self._narrow_sum(got.size, ranks, turn)
            index = first_difference(got, exact)
        return None if index is None else (index, f"the sum is {exact[index]!r}")

    def _inputs(self, elements: int, ranks: int, turn: int) -> list[np.ndarray]:
        """All ranks' inputs, up to where they repeat after a whole number of blocks. The sums repeat there, too."""
        count = min(elements, math.lcm(INPUT_PERIOD, self.block))
        return [rank_input(count, rank, turn, self.dtype).astype(np.float32) for rank in range(ranks)]

    def _narrow_sum(self, elements: int, ranks: int, turn: int) -> np.ndarray:
        total = numerics.all_reduce_reference(self._inputs(elements, ranks, turn), self.block, bits=self.bits)
        return np.resize(total.astype(self.dtype), elements)

    def _bound(self, elements: int, ranks: int, turn: int) -> np.ndarray:
        inputs = self._inputs(elements, ranks, turn)
        exponents = np.max([numerics.block_exponents(x, self.block) for x in inputs], axis=0)
        bound = numerics.error_bound(exponents, ranks, bits=self.bits, stochastic=True)
        return np.resize(np.repeat(bound, self.block)[: inputs[0].size], elements)


def _beyond(got: np.ndarray, exact: np.ndarray, bound: Any) -> int | None:
    off = np.abs(got.astype(np.float32) - exact) > bound
    return int(np.argmax(off)) if off.any() else None


def ways_of(dtype: str, bits: list[int], rounding: str, versus_gloo: bool, block: int) -> list[Way]:
    """The ways to time.

    Args:
      dtype: the type of the elements.
      bits: the widths of jaxina's words.
      rounding: of 8 and 16 bits.
      versus_gloo: whether to add XLA's own collective. Beside narrow words of float32 it also sums bfloat16.
      block: the job's block size, in elements.
    """
    ways = []
    for width in bits:

        def scope(width: int = width) -> Any:
            return jaxina.collectives(bits=width, rounding=rounding, smallest=0)

        name = "jaxina" if width == 32 else f"jaxina, {width} bits"
        ways.append(Way(name, scope, dtype, width, rounding == "stochastic", block))
    if versus_gloo:
        ways.append(Way("gloo", lambda: jaxina.collectives(False), dtype))
        if min(bits) < 32 and dtype == "float32":
            ways.append(Way("gloo, bfloat16", lambda: jaxina.collectives(False), "bfloat16"))
    return ways
