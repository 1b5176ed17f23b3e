"""What a leaf's reduction asks of the other workers, and the collectives that answer.

A compressor describes the reduction of one array as a generator: each `Message` it yields is what this worker sends in
one round, and what comes back from `yield` is the answer. `run` advances the generators of all leaves together and
answers a round of all of them with one collective, as the bucketing of training frameworks does. Compressors keep to one
kind and one dtype a round (GATHER carries any): XLA runs independent collectives in an order of its own, and with more
devices than threads devices can end up waiting in different ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxina.compressors.packing import Field

SUM, MAX, GATHER = "sum", "max", "gather"

Arrays = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class Message:
    """What one worker sends for one leaf in one round.

    Attributes:
      kind: SUM and MAX are answered by the elementwise sum and maximum over workers (an aggregator can form them),
        GATHER by all workers' arrays, stacked along a new first axis.
      arrays: what is sent, by name.
      fields: how those arrays are packed on the way to the aggregator, or to the other workers.
      answer_fields: how the answer of the aggregator is packed (SUM and MAX).
    """

    kind: str
    arrays: Arrays
    fields: Mapping[str, Field]
    answer_fields: Mapping[str, Field]


LeafReduction = Generator[Message, Arrays, tuple[jax.Array, Any]]


@dataclasses.dataclass(frozen=True)
class Exchange:
    """A message that was answered. `answer` is None for GATHER, where it is the other workers' messages."""

    message: Message
    answer: Arrays | None


def run(reductions: Sequence[LeafReduction], axis_name: Any) -> tuple[list[tuple[jax.Array, Any]], list[Exchange]]:
    """Runs all leaves' reductions to their ends.

    Args:
      reductions: one generator per leaf.
      axis_name: the mapped axis of the workers, or None for a single worker.

    Returns:
      What each generator returned, and the exchanges in the order of rounds and leaves.
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
    answers: dict[int, Arrays] = {}
    for kind, collective in _collectives(axis_name).items():
        asked = {index: message.arrays for index, message in messages.items() if message.kind == kind}
        answers |= (_gathered if kind == GATHER else _fused)(collective, asked)
    return answers


def _collectives(axis_name: Any) -> dict[str, Callable[[jax.Array], jax.Array]]:
    if axis_name is None:
        return {SUM: lambda x: x, MAX: lambda x: x, GATHER: lambda x: x[None]}
    return {
        SUM: lambda x: jax.lax.psum(x, axis_name),
        MAX: lambda x: jax.lax.pmax(x, axis_name),
        GATHER: lambda x: jax.lax.all_gather(x, axis_name),
    }


def _fused(collective: Callable[[jax.Array], jax.Array], asked: dict[int, Arrays]) -> dict[int, Arrays]:
    """Applies `collective` to all arrays: those of one dtype in one call."""
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
    """All arrays, as bytes, in one call, which adds a leading axis."""
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
