"""Keeps values that are not finite out of compressors, and tells all workers about them.

They must not be hidden, and must not stay in a memory for all later steps. So if a leaf has a NaN or an infinity on any
worker, the leaf's mean is NaN in all elements on all workers, and the leaf's state stays as it was. A training loop may
then skip the step. This costs one flag per leaf (`flagged`), or a look at the mean where that shows it (`looked_at`).
Compressors that send plain floating point (`Compressor.carries_non_finite`) give what IEEE-754 gives instead, element
by element.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxina.compressors import packing
from jaxina.compressors.context import Context
from jaxina.compressors.messages import IN_PARTS, SUM, Arrays, LeafReduction, Message
from jaxina.errors import InvalidArgumentError

POISON = "poison"
"""Entry of the first message that all workers get the same answer to, []: not 0 from a worker whose leaf is not finite.

It is 1, but NaN in a sum of floating point. There jaxina gives the flag an exponent with the payload, beside which 1
may be rounded to 0. NaN travels beside the words, and leaves the other elements alone.
"""


def flagged(
    reduce: Callable[[jax.Array, Arrays, Context], LeafReduction],
    x: jax.Array,
    state: Arrays,
    context: Context,
    owed: jax.Array | None,
) -> LeafReduction:
    """Runs `reduce`, whose leaves must be finite, and adds the flag `POISON` to the first message that is not in parts.

    Args:
      reduce: as `Compressor.reduce`.
      x: one leaf, float32, of any values.
      state: the leaf's state.
      context: the leaf's.
      owed: what `reduce` adds to the leaf, which may then leave float32's range. None without error feedback.

    Yields:
      The messages of `reduce`.

    Returns:
      What `reduce` returns. If a worker has raised the flag, a mean of NaN; and then, or if the mean is not finite,
      the state as it was.

    Raises:
      InvalidArgumentError: all messages are in parts.
    """
    poisoned = ~_all_finite(x if owed is None else x + owed)
    inner = reduce(jnp.where(poisoned, 0, x), state, context)
    message, flag = next(inner), None
    while True:
        if flag is None and message.kind not in IN_PARTS:
            answer = dict((yield _with_flag(message, poisoned, context.workers)))
            flag = (answer.pop(POISON) != 0).any()
        else:
            answer = yield message
        try:
            message = inner.send(answer)
        except StopIteration as end:
            mean, next_state = end.value
            break
    if flag is None:
        raise InvalidArgumentError(
            "a reduction of messages in parts alone leaves each worker with another result: end it with a GATHER"
        )
    lost = flag | ~_all_finite(mean)  # the algorithm's own sums may overflow too
    return jnp.where(flag, jnp.nan, mean), _unless(lost, next_state, state)


def looked_at(
    reduce: Callable[[jax.Array, Arrays, Context], LeafReduction], x: jax.Array, state: Arrays, context: Context
) -> LeafReduction:
    """Runs `reduce`, whose mean is not finite on any worker if a leaf is not: it needs no flag, and no finite copy.

    A mean that overflows counts as not finite here, too.

    Args and yields: as `flagged`.

    Returns:
      What `reduce` returns; if the mean is not finite, a mean of NaN and the state as it was.
    """
    mean, next_state = yield from reduce(x, state, context)
    lost = ~_all_finite(mean)
    return jnp.where(lost, jnp.nan, mean), _unless(lost, next_state, state)


def _all_finite(x: jax.Array) -> jax.Array:
    # Not by the maximum, which takes XLA's CPU backend less time: with JAX 0.10.2 it loses NaN.
    return jnp.isfinite(x).all()


def _unless(lost: jax.Array, next_state: Arrays, state: Arrays) -> Arrays:
    return jax.tree.map(functools.partial(jnp.where, lost), state, next_state)


def _with_flag(message: Message, poisoned: jax.Array, workers: int) -> Message:
    # With the dtype of the arrays, the flag travels with them in one collective. Narrow words are collectives of their
    # own, and leave integers to another one.
    dtype = jnp.int32 if message.narrow else next(iter(message.arrays.values())).dtype
    field = answer_field = packing.integers(0, 1)
    raised: float = 1
    if message.kind == SUM and dtype == jnp.float32:
        raised, field, answer_field = jnp.nan, packing.floats(), packing.floats()
    elif message.kind == SUM:
        answer_field = packing.integers(0, workers)
    return dataclasses.replace(
        message,
        arrays={**message.arrays, POISON: jnp.where(poisoned, raised, 0).astype(dtype)},
        fields={**message.fields, POISON: field},
        answer_fields={**message.answer_fields, POISON: answer_field},
    )
