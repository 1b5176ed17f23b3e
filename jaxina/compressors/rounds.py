"""The messages that workers exchange to reduce a leaf, and the collectives that answer them.

A compressor describes the reduction of one array as a generator. Each `Message` that it yields is what this worker
sends in one round; the value of the `yield` is the answer. `run` advances the generators of all leaves together and
answers one round of all leaves with one collective, as the bucketing of training frameworks does.

A round must have one kind of message and one dtype (GATHER takes any dtypes). With several collectives in a round, XLA
could run them in any order; where there are more devices than threads, devices could wait for each other in different
collectives. Only sums that jaxina carries (`Message.narrow`) are several collectives: it keeps them in order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxina import _tracing_settings
from jaxina.compressors import axes
from jaxina.compressors.packing import Field
from jaxina.errors import InvalidArgumentError

SUM, MAX, GATHER = "sum", "max", "gather"

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
      kind: what the answer is. SUM and MAX: the elementwise sum or maximum over workers, which an aggregator can
        compute. GATHER: all workers' arrays, stacked along a new first axis.
      arrays: what is sent, by name.
      fields: how the arrays are packed on the way to the aggregator (SUM and MAX) or to the other workers (GATHER).
      answer_fields: how the aggregator's answer is packed (SUM and MAX).
      aggregate: what the aggregator does to the sum before it answers (SUM). None answers with the sum. Every worker
        does it, since no collective does.
      narrow: instead, jaxina's own narrow words, where it carries the sum (SUM). All messages of a round have the same.

    Raises:
      InvalidArgumentError: an array of kind SUM is not int32 or float32, its field is missing, or its sum may go beyond
        int32. Such a sum would wrap silently: in int8, four times 100 is -112.
    """

    kind: str
    arrays: Arrays
    fields: Mapping[str, Field]
    answer_fields: Mapping[str, Field]
    aggregate: Callable[[Arrays], Arrays] | None = None
    narrow: Narrow | None = None

    def __post_init__(self) -> None:
        if self.kind == SUM:
            for name, array in self.arrays.items():
                _check_sum(name, array.dtype, self.answer_fields.get(name))


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
    """A message and its answer. `answer` is None for GATHER: there the answer is the other workers' messages."""

    message: Message
    answer: Arrays | None


def run(reductions: Sequence[LeafReduction], axis_name: Any) -> tuple[list[tuple[jax.Array, Any]], list[Exchange]]:
    """Runs the reductions of all leaves to their ends.

    Args:
      reductions: one generator per leaf.
      axis_name: the mapped axis of the workers, or None for a single worker.

    Returns:
      What each generator returned; and the exchanges, in the order of rounds and then leaves.
    """
    results: list[Any] = [None] * len(reductions)
    exchanges: list[Exchange] = []
    answers: dict[int, Arrays] | None = None  # to the last round's messages
    while answers is None or answers:
        messages: dict[int, Message] = {}
        for index in range(len(reductions)) if answers is None else answers:
            try:
                messages[index] = next(reductions[index]) if answers is None else reductions[index].send(answers[index])
            except StopIteration as end:
                results[index] = end.value
        answers = _answer(messages, axis_name)
        for index, message in messages.items():
            exchanges.append(Exchange(message, None if message.kind == GATHER else answers[index]))
    return results, exchanges


def _answer(messages: Mapping[int, Message], axis_name: Any) -> dict[int, Arrays]:
    narrow = {message.narrow for message in messages.values() if message.narrow}
    if narrow:
        (one,) = narrow
        return _narrow_sums(one, {index: message.arrays for index, message in messages.items()}, axis_name)
    answers: dict[int, Arrays] = {}
    for kind, collective in _collectives(axis_name).items():
        asked = {index: message.arrays for index, message in messages.items() if message.kind == kind}
        answers |= (_gathered if kind == GATHER else _fused)(collective, asked)
    for index, message in messages.items():
        if message.kind == SUM and message.aggregate:
            answers[index] = _aggregated(message, answers[index])
    return answers


def _aggregated(message: Message, total: Arrays) -> Arrays:
    """Applies `Message.aggregate`. What others have added to the message (`non_finite`) stays a sum."""
    assert message.aggregate
    return total | message.aggregate(total)


def _precision(narrow: Narrow) -> _tracing_settings.Precision:
    """As `jaxina.collectives` would set it, for arrays of any size."""
    return _tracing_settings.Precision(narrow.bits, narrow.rounding, 0, narrow.seed)


def _narrow_sums(narrow: Narrow, asked: dict[int, Arrays], axis_name: Any) -> dict[int, Arrays]:
    """Sums float32 arrays in narrow words, each on its own: every one begins a block. jaxina merges and orders them."""
    narrow_sums, others = {}, {}
    with _tracing_settings.with_precision(_precision(narrow)):
        for index, arrays in asked.items():
            floats = {name: array for name, array in arrays.items() if array.dtype == jnp.float32}
            narrow_sums[index] = {name: jax.lax.psum(array, axis_name) for name, array in floats.items()}
            others[index] = {name: array for name, array in arrays.items() if name not in floats}
        other_sums = _fused(lambda x: jax.lax.psum(x, axis_name), others)
    return {index: narrow_sums[index] | other_sums[index] for index in asked}


def _collectives(axis_name: Any) -> dict[str, Callable[[jax.Array], jax.Array]]:
    if axis_name is None:
        return {SUM: lambda x: x, MAX: lambda x: x, GATHER: lambda x: x[None]}
    # Workers get the same. Of sums and maxima JAX knows that. Of what is gathered it must be told, where types tell.
    to = "invarying" if axes.told(axis_name) else "varying"
    return {
        SUM: lambda x: jax.lax.psum(x, axis_name),
        MAX: lambda x: jax.lax.pmax(x, axis_name),
        GATHER: lambda x: jax.lax.all_gather(x, axis_name, to=to),
    }


def _fused(collective: Callable[[jax.Array], jax.Array], asked: dict[int, Arrays]) -> dict[int, Arrays]:
    """Applies `collective` to all arrays, with one call per dtype."""
    leaves, structure = jax.tree.flatten(asked)
    answers: list[Any] = [None] * len(leaves)
    for dtype in dict.fromkeys(leaf.dtype for leaf in leaves):
        members = [i for i, leaf in enumerate(leaves) if leaf.dtype == dtype]
        answer = collective(jnp.concatenate([leaves[i].reshape(-1) for i in members]))
        start = 0
        for i in members:
            answers[i] = answer[start : start + leaves[i].size].reshape(leaves[i].shape)
            start += leaves[i].size
    return jax.tree.unflatten(structure, answers)


def _gathered(collective: Callable[[jax.Array], jax.Array], asked: dict[int, Arrays]) -> dict[int, Arrays]:
    """Applies `collective`, which adds a leading axis, to all arrays in one call, as bytes."""
    leaves, structure = jax.tree.flatten(asked)
    if not leaves:
        return {}
    parts = [jax.lax.bitcast_convert_type(leaf, jnp.uint8).reshape(-1) for leaf in leaves]
    answer = collective(jnp.concatenate(parts))
    answers, start = [], 0
    for leaf, part in zip(leaves, parts, strict=True):
        width = leaf.dtype.itemsize
        shape = (len(answer), *leaf.shape, *([width] if width > 1 else []))
        answers.append(jax.lax.bitcast_convert_type(answer[:, start : start + part.size].reshape(shape), leaf.dtype))
        start += part.size
    return jax.tree.unflatten(structure, answers)
