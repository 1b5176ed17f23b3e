"""Runs the reductions of all leaves together, round by round.

`run` advances the generators of all leaves and answers one round of all leaves with one collective
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
      What each generator returned; and the exchanges, in the order of rounds and then leaves.
    """
    groups = [_Group(start, members, leaves) for members in _alike(leaves)]
    exchanges: list[Exchange] = []
    messages: dict[int, Message] = {}
    answers: dict[int, Arrays] = {}
    while True:
        aggregated: dict[int, Arrays] = {}
        following: dict[int, Message] = {}
        for group in groups:
            if group.results is None:
                answered, asked = group.advance(answers)
                aggregated |= answered
                following |= asked
        for index, message in messages.items():
            unsummed = message.kind in (GATHER, ALL_TO_ALL)
            exchanges.append(Exchange(message, None if unsummed else aggregated[index]))
        if not following:
            break
        messages = dict(sorted(following.items()))
        answers = answer(messages, axis_name)
    results = dict(pair for group in groups for pair in zip(group.members, group.results or [], strict=True))
    return [results[index] for index in range(len(leaves))], exchanges


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

    def __init__(self, start: Callable[[Leaf], LeafReduction], members: list[int], leaves: Sequence[Leaf]) -> None:
        self.members = members
        self.results: list[Any] | None = None
        self._start = start
        self._leaves = self._stacked([leaves[index] for index in members])
        self._answers: list[Arrays] | None = None  # before the first round

    def advance(self, answers: dict[int, Arrays]) -> tuple[dict[int, Arrays], dict[int, Message]]:
        """Runs the generators up to their next messages, or to their `results`.

        Args:
          answers: to the last messages, by leaf.

        Returns:
          What the aggregator makes of those answers, and the next messages, by leaf.
        """
        if self._answers is None:
            self._answers = []
        else:
            self._answers.append(self._stacked([answers[index] for index in self.members]))
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

        lifted = replay if len(self.members) == 1 else jax.vmap(replay)
        made, answered = map(self._apart, lifted(self._leaves, self._answers))
        (message,) = asked
        aggregated = dict(zip(self.members, answered, strict=True))
        if message is None:
            self.results = made
            return aggregated, {}
        messages = [message.with_arrays(arrays) for arrays in made]
        return aggregated, dict(zip(self.members, messages, strict=True))

    def _stacked(self, trees: list[Any]) -> Any:
        return trees[0] if len(trees) == 1 else jax.tree.map(lambda *arrays: jnp.stack(arrays), *trees)

    def _apart(self, tree: Any) -> list[Any]:
        if len(self.members) == 1:
            return [tree]
        leaves, structure = jax.tree.flatten(tree)
        return [jax.tree.unflatten(structure, [array[i] for array in leaves]) for i in range(len(self.members))]
