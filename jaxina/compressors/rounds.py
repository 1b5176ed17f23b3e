"""Runs the reductions of all leaves together, round by round.

`run` advances the generators of all leaves and answers one round of all leaves together
(`jaxina.compressors.answers`), as the bucketing of training frameworks does. Leaves of one shape are computed as one,
in a `jax.vmap`: a model of many layers has many leaves but few shapes, and the time to compile grows with the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxina.compressors.answers import answer
from jaxina.compressors.messages import ALL_TO_ALL, GATHER, Arrays, Exchange, LeafReduction, Message


class Leaf(NamedTuple):
    """What differs between the leaves of one update.

    Attributes:
      x: this worker's array, float32.
      state: the leaf's state.
      key: random key of this leaf in this step, the same on all workers.
      params: the leaf's parameters, or None.
    """

    x: jax.Array
    state: Arrays
    key: jax.Array
    params: jax.Array | None


def run(
    start: Callable[[Leaf], LeafReduction], leaves: Sequence[Leaf], axis_name: Any
) -> tuple[list[tuple[jax.Array, Any]], list[Exchange]]:
    """Runs the reductions of all leaves to their ends.

    Args:
      start: makes a leaf's generator. It depends on nothing but its argument and what all leaves share.
      leaves: the leaves.
      axis_name: the mapped axis of the workers, or None for a single worker.

    Returns:
      What each generator returned; and the exchanges, in the order of rounds.
    """
    members = _alike(leaves)
    groups = [_Group(start, [leaves[index] for index in of_group]) for of_group in members]
    exchanges: list[Exchange] = []
    messages: dict[int, Message] = {}
    answers: dict[int, Arrays] = {}
    while True:
        following: dict[int, Message] = {}
        for number, group in enumerate(groups):
            if group.results is not None:
                continue
            aggregated, asked = group.advance(answers.get(number))
            if number in messages:
                message = messages[number]
                unsummed = message.kind in (GATHER, ALL_TO_ALL)
                exchanges.append(Exchange(message, None if unsummed else aggregated, group.size))
            if asked is not None:
                following[number] = asked
        if not following:
            break
        messages = following
        answers = answer(messages, axis_name)
    results: list[Any] = [None] * len(leaves)
    for of_group, group in zip(members, groups, strict=True):
        for index, result in zip(of_group, group.results or [], strict=True):
            results[index] = result
    return results, exchanges


def _alike(leaves: Sequence[Leaf]) -> list[list[int]]:
    """The numbers of leaves, grouped by the types of all their arrays."""
    groups: dict[Any, list[int]] = {}
    for index, leaf in enumerate(leaves):
        arrays, structure = jax.tree.flatten(leaf)
        groups.setdefault((structure, *map(jax.typeof, arrays)), []).append(index)
    return list(groups.values())


class _Group:
    """The reductions of leaves of one type. A group of one is computed without `jax.vmap`.

    A generator cannot leave the `jax.vmap` in which it began. So each round runs the generators from their start, with
    the answers so far. XLA finds what is computed again, and computes it once.
    """

    def __init__(self, start: Callable[[Leaf], LeafReduction], leaves: Sequence[Leaf]) -> None:
        self.size = len(leaves)
        self.results: list[Any] | None = None
        self._start = start
        self._leaves = jax.tree.map(lambda *arrays: jnp.stack(arrays), *leaves)
        self._answers: list[Arrays] = []

    def advance(self, answers: Arrays | None) -> tuple[Arrays, Message | None]:
        """Runs the generators up to their next messages, or to their `results`. Arrays are [leaves, ...].

        Args:
          answers: to the last messages; None before the first.

        Returns:
          What the aggregator makes of those answers, and the next messages as one.
        """
        if answers is not None:
            self._answers.append(answers)
        asked: list[Message | None] = []

        def replay(leaf: Leaf, given: list[Arrays]) -> tuple[Any, Arrays]:
            reduction, answered = self._start(leaf), {}
            try:
                message = next(reduction)
                for one in given:
                    answered = message.aggregated(one)
                    message = reduction.send(answered)
            except StopIteration as end:
                asked.append(None)
                return end.value, answered
            asked.append(message.with_arrays({}))
            return message.arrays, answered

        made, aggregated = self._lifted(replay)
        (message,) = asked
        if message is not None:
            return aggregated, message.with_arrays(made)
        arrays, structure = jax.tree.flatten(self._kept_together(made))
        self.results = [jax.tree.unflatten(structure, [array[i] for array in arrays]) for i in range(self.size)]
        return aggregated, None

    def _kept_together(self, made: Any) -> Any:
        """Has XLA compute the arrays as a whole, since it fuses nothing across a loop.

        Else each leaf's slice becomes a kernel of its own with the whole arithmetic in it, which takes long to compile.
        """
        if self.size == 1:
            return made
        return jax.lax.scan(lambda carry, leaf: (carry, jax.lax.optimization_barrier(leaf)), None, made)[1]

    def _lifted(self, replay: Callable[[Leaf, list[Arrays]], tuple[Any, Arrays]]) -> tuple[Any, Arrays]:
        if self.size > 1:
            return jax.vmap(replay)(self._leaves, self._answers)
        alone = replay(*jax.tree.map(lambda array: array[0], (self._leaves, self._answers)))
        return jax.tree.map(lambda array: array[None], alone)
