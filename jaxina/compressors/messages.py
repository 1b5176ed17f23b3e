"""What workers send in one round of reducing a leaf: kinds of messages, and how their bytes are packed.

A compressor describes the reduction of one array as a generator. Each `Message` that it yields is what this worker
sends in one round; the value of the `yield` is the answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from jaxina.compressors.packing import Field
from jaxina.errors import InvalidArgumentError

SUM, MAX, GATHER, REDUCE_SCATTER, ALL_TO_ALL = "sum", "max", "gather", "reduce_scatter", "all_to_all"

SUMMED = (SUM, REDUCE_SCATTER)
"""Kinds of messages whose answers are sums."""

IN_PARTS = (REDUCE_SCATTER, ALL_TO_ALL)
"""Kinds of messages whose arrays have a part for each worker, along the first axis."""

Arrays = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class Narrow:
    """Says that jaxina carries the message's float32 arrays in narrow words, and rounds the sum on its way.

    Attributes:
      bits: of a word, 8 or 16.
      block: how many elements share an exponent, as in the job.
      rounding: one of jaxina.config.ROUNDINGS.
      seed: of stochastic rounding, the same in all messages of a round.
    """

    bits: int
    block: int
    rounding: str
    seed: int


@dataclasses.dataclass(frozen=True)
class Message:
    """What one worker sends for one leaf in one round.

    Attributes:
      kind: what the answer is, for n workers.

        * SUM and MAX: the elementwise sum or maximum over workers, which an aggregator can compute.
        * GATHER: all workers' arrays, stacked along a new first axis.
        * REDUCE_SCATTER: arrays are [n, ...], and part w is for worker w. The answer is the sum over workers of this
          worker's part, which an aggregator can compute.
        * ALL_TO_ALL: arrays are [n, ...], and part w is for worker w. The answer is [n, ...]: part w is worker w's.

        In one round, all leaves have one kind, and what is summed or compared has one dtype: with several collectives,
        devices could wait for each other in different ones.

        Where jaxina makes a sum of float32, an array's blocks of elements share an exponent. So numbers of different
        scale belong in arrays of their own. GATHER and ALL_TO_ALL send bytes, and MAX is exact.
      arrays: what is sent, by name.
      fields: how the arrays are packed on the way to the aggregator (SUM, MAX, REDUCE_SCATTER) or to the other workers
        (GATHER, ALL_TO_ALL). Parts are packed one by one.
      answer_fields: how the aggregator's answer is packed (SUM, MAX, REDUCE_SCATTER).
      aggregate: what the aggregator does to the sum before it answers (SUM). None answers with the sum. Every worker
        does it, since no collective does.
      narrow: instead, jaxina's own narrow words, where it carries the sum (SUM). All messages of a round have the same.

    Raises:
      InvalidArgumentError: an array that is summed is not int32 or float32, its field is missing, or its sum may go
        beyond int32. Such a sum would wrap silently: in int8, four times 100 is -112.
    """

    kind: str
    arrays: Arrays
    fields: Mapping[str, Field]
    answer_fields: Mapping[str, Field]
    aggregate: Callable[[Arrays], Arrays] | None = None
    narrow: Narrow | None = None

    def __post_init__(self) -> None:
        if self.kind in SUMMED:
            for name, array in self.arrays.items():
                _check_sum(name, array.dtype, self.answer_fields.get(name))

    def aggregated(self, answer: Arrays) -> Arrays:
        """Applies `aggregate`. What others have added (``jaxina.compressors.non_finite``) stays a sum."""
        return answer | self.aggregate(answer) if self.aggregate else answer

    def with_arrays(self, arrays: Arrays) -> Message:
        """The same message with these arrays. `aggregate` is left out, since it may depend on those before."""
        return dataclasses.replace(self, arrays=arrays, aggregate=None)


def _check_sum(name: str, dtype: Any, answer: Field | None) -> None:
    if dtype not in (jnp.int32, jnp.float32):
        raise InvalidArgumentError(
            f"the array {name!r} is {dtype}, but arrays are summed in int32 or float32, where no sum wraps: convert it "
            "with .astype. That sends no more bytes, because `fields` says how many bits a number takes"
        )
    if answer is None:
        raise InvalidArgumentError(f"the array {name!r} is sent, but `fields` does not say how it is packed")
    if answer.range and (answer.range[0] < -(2**31) or answer.range[1] >= 2**31):
        low, high = answer.range
        raise InvalidArgumentError(
            f"sums of {name!r} from {low} to {high} do not fit into int32: use fewer workers, or fewer bits a number"
        )


LeafReduction = Generator[Message, Arrays, tuple[jax.Array, Any]]


@dataclasses.dataclass(frozen=True)
class Exchange:
    """The messages of some leaves in one round, and their answers.

    Attributes:
      message: with the arrays that were sent, [leaves, ...].
      answer: [leaves, ...]. None for GATHER and ALL_TO_ALL: there the answer is made of the other workers' messages.
      leaves: how many leaves of one type there are.
    """

    message: Message
    answer: Arrays | None
    leaves: int
