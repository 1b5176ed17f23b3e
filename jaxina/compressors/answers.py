"""The collectives that answer the messages of one round, of all leaves together.

A round must have one kind of message and one dtype (GATHER and ALL_TO_ALL take any dtypes). With several collectives in
a round, XLA could run them in any order; where there are more devices than threads, devices could wait for each other
in different collectives. So all leaves share a collective, but for sums of float32 that jaxina makes. Its blocks share
an exponent, and beside the largest number of a block small ones are lost. So each leaf is a sum of its own there, which
begins a block. jaxina merges these sums, and keeps them in order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from jaxina import _tracing_settings
from jaxina.compressors import axes
from jaxina.compressors.messages import ALL_TO_ALL, GATHER, IN_PARTS, MAX, REDUCE_SCATTER, SUM, Arrays, Message, Narrow
from jaxina.compressors.non_finite import POISON

_Collective = Callable[[jax.Array], jax.Array]
"""From what a worker sends, [size] or [n, size], to what it gets."""


def answer(messages: Mapping[int, Message], axis_name: Any) -> dict[int, Arrays]:
    """Exchanges one round of messages. Their `Message.aggregate` is left to the caller.

    Args:
      messages: by number. The arrays have a first axis of leaves, before those of `Message`.
      axis_name: the mapped axis of the workers, or None for a single worker.

    Returns:
      The answers, by number, with a first axis of leaves, too.
    """
    answers: dict[int, Arrays] = {}
    with _precision({message.narrow for message in messages.values() if message.narrow}):
        for kind, collective in _collectives(axis_name).items():
            asked = {index: message.arrays for index, message in messages.items() if message.kind == kind}
            if asked:
                answers |= _answered(kind, collective, asked, axis_name)
    return answers


def _precision(narrow: set[Narrow]) -> contextlib.AbstractContextManager[None]:
    """As `jaxina.collectives` would set it, for arrays of any size. The messages of a round have the same, or none."""
    if not narrow:
        return contextlib.nullcontext()
    (one,) = narrow
    return _tracing_settings.with_precision(_tracing_settings.Precision(one.bits, one.rounding, 0, one.seed))


def _answered(kind: str, collective: _Collective, asked: dict[int, Arrays], axis_name: Any) -> dict[int, Arrays]:
    """Answers messages of one kind, given as their arrays."""
    sums: dict[int, Arrays] = {}
    together: dict[int, Arrays] = {}
    for index, arrays in asked.items():
        # A flag is 0 or NaN, which no exponent changes.
        apart = [name for name, x in arrays.items() if name != POISON and axes.sums_in_blocks(kind, x, axis_name)]
        sums[index] = {name: jnp.stack([collective(leaf) for leaf in arrays[name]]) for name in apart}
        together[index] = {name: array for name, array in arrays.items() if name not in apart}
    if kind in IN_PARTS:
        together = _swapped(together)
    as_bytes = kind in (GATHER, ALL_TO_ALL)
    answers = _fused(collective, together, parts=kind in IN_PARTS, as_bytes=as_bytes)
    if as_bytes:
        answers = _swapped(answers)
    return {index: sums[index] | answers[index] for index in asked}


def _swapped(arrays: dict[int, Arrays]) -> dict[int, Arrays]:
    """Exchanges the axes of leaves and of workers, which are the first two."""
    return jax.tree.map(lambda array: jnp.swapaxes(array, 0, 1), arrays)


def _collectives(axis_name: Any) -> dict[str, _Collective]:
    if axis_name is None:
        alone: dict[str, _Collective] = dict.fromkeys((SUM, MAX, ALL_TO_ALL), lambda x: x)
        return alone | {REDUCE_SCATTER: lambda x: x[0], GATHER: lambda x: x[None]}
    # Workers get the same. Of sums and maxima JAX knows that. Of what is gathered it must be told, where types tell.
    to = "invarying" if axes.told(axis_name) else "varying"
    return {
        SUM: lambda x: jax.lax.psum(x, axis_name),
        MAX: lambda x: jax.lax.pmax(x, axis_name),
        GATHER: lambda x: jax.lax.all_gather(x, axis_name, to=to),
        REDUCE_SCATTER: lambda x: jax.lax.psum_scatter(x, axis_name),
        ALL_TO_ALL: lambda x: jax.lax.all_to_all(x, axis_name, split_axis=0, concat_axis=0),
    }


def _fused(collective: _Collective, asked: dict[int, Arrays], parts: bool, as_bytes: bool) -> dict[int, Arrays]:
    """Applies `collective` to all arrays, with one call for each dtype, or one call in all for bytes.

    Args:
      collective: what to apply. Axes that it puts before the last one come before those of a part's shape.
      asked: the arrays, by number and name.
      parts: whether arrays are [n, ...], and a part of each is for another worker.
      as_bytes: whether the arrays travel as bytes.
    """
    leaves, structure = jax.tree.flatten(asked)
    sent = [_as_bytes(leaf) if as_bytes else leaf for leaf in leaves]
    shapes = [array.shape[1:] if parts else array.shape for array in sent]
    flat = [array.reshape((len(array), -1) if parts else (-1,)) for array in sent]
    answers: list[Any] = [None] * len(leaves)
    for dtype in dict.fromkeys(array.dtype for array in flat):
        members = [i for i, array in enumerate(flat) if array.dtype == dtype]
        got = collective(jnp.concatenate([flat[i] for i in members], axis=-1))
        start = 0
        for i in members:
            size = flat[i].shape[-1]
            piece = got[..., start : start + size].reshape(*got.shape[:-1], *shapes[i])
            answers[i] = _from_bytes(piece, leaves[i].dtype) if as_bytes else piece
            start += size
    return jax.tree.unflatten(structure, answers)


def _as_bytes(array: jax.Array) -> jax.Array:
    """uint8[..., width], or uint8[...] for types of one byte."""
    return jax.lax.bitcast_convert_type(array, jnp.uint8)


def _from_bytes(array: jax.Array, dtype: Any) -> jax.Array:
    return jax.lax.bitcast_convert_type(array, dtype)
