"""Counts the bytes that an update puts on the wire. Every message is packed, and its bytes are counted."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxina.compressors import packing
from jaxina.compressors.base import Compressor
from jaxina.compressors.messages import ALL_TO_ALL, GATHER, IN_PARTS, Message
from jaxina.compressors.packing import Field
from jaxina.compressors.registry import chosen
from jaxina.errors import InvalidArgumentError
from jaxina.numerics.blocks import block_count

_RUN_ONCE = {"xla_backend_optimization_level": 0}  # compiling takes longer than running


@dataclasses.dataclass(frozen=True)
class Traffic:
    """What one worker sends and receives in one step, in bytes, without packet headers.

    Attributes:
      sent: bytes that the worker sends to the aggregator (SUM, MAX, REDUCE_SCATTER), to each of the other workers
        (GATHER; a network without multicast carries these n - 1 times), or to all of them together (ALL_TO_ALL).
      received: bytes of the aggregator's answers (SUM, MAX, REDUCE_SCATTER), or of what the other workers sent to this
        one (GATHER, ALL_TO_ALL).
    """

    sent: int
    received: int


class Meter:
    """Runs a compressor's updates and counts their bytes.

    `update` is `Compressor.update` with a third result: the arrays that were sent. `traffic` counts their bytes. It
    expects them as they leave `jax.jit` and `jax.shard_map` or `jax.vmap`: with a leading axis of workers.

    Args:
      compressor: the compressor.
    """

    def __init__(self, compressor: Compressor) -> None:
        self._compressor = compressor
        self._messages: list[tuple[Message, int]] = []

    def update(self, gradients: Any, state: dict[str, Any], axis_name: Any = None) -> tuple[Any, dict[str, Any], Any]:
        """As `Compressor.update`, with a third result for `traffic`."""
        mean, state, exchanges = self._compressor.update_with_traffic(gradients, state, axis_name)
        # Fields are the same at every trace, so they are kept here; only arrays can leave the compiled program.
        self._messages = [(exchange.message.with_arrays({}), exchange.leaves) for exchange in exchanges]
        return mean, state, [(exchange.message.arrays, exchange.answer) for exchange in exchanges]

    def traffic(self, arrays: Any, worker: int = 0) -> Traffic:
        """Counts what one worker sent and received in one step.

        Args:
          arrays: the third results of `update` of all n workers, stacked: leaves [n, ...].
          worker: the worker's number, from 0.
        """
        exchanges = jax.tree.map(np.asarray, arrays)
        sent = received = 0
        for (message, leaves), (ours, answer) in zip(self._messages, exchanges, strict=True):
            for leaf in range(leaves):
                up, down = _counted(message, _leaf(ours, leaf), _leaf(answer, leaf), worker)
                sent, received = sent + up, received + down
        return Traffic(sent, received)


def _counted(
    message: Message, ours: dict[str, np.ndarray], answer: dict[str, np.ndarray] | None, worker: int
) -> tuple[int, int]:
    """The bytes that `worker` sends and receives in one exchange of the workers' arrays."""
    workers = len(next(iter(ours.values())))
    others = [other for other in range(workers) if other != worker]
    if message.kind == GATHER:
        lengths = [_length(message, _of(ours, w), message.fields) for w in (worker, *others)]
        return lengths[0], sum(lengths[1:])
    if message.kind == ALL_TO_ALL:

        def part(sender: int, receiver: int) -> int:
            return _length(message, _of(_of(ours, sender), receiver), message.fields)

        return sum(part(worker, other) for other in others), sum(part(other, worker) for other in others)
    own = _of(ours, worker)
    sent = [_of(own, part) for part in range(workers)] if message.kind in IN_PARTS else [own]
    assert answer is not None, "an aggregator answers"
    received = _length(message, _of(answer, worker), message.answer_fields)
    return sum(_length(message, arrays, message.fields) for arrays in sent), received


def _leaf(arrays: Any, leaf: int) -> Any:
    """The arrays of one leaf, [workers, ...], of those of several, [workers, leaves, ...]. None stays None."""
    return jax.tree.map(lambda array: array[:, leaf], arrays)


def _length(message: Message, arrays: Mapping[str, np.ndarray], fields: Mapping[str, Field]) -> int:
    if message.narrow is None:
        return len(packing.to_bytes(arrays, fields))
    floats = {name: array for name, array in arrays.items() if array.dtype == np.float32}
    narrow = sum(
        array.size * message.narrow.bits // 8 + block_count(array.size, message.narrow.block)
        for array in floats.values()
    )
    return narrow + len(packing.to_bytes(arrays, {name: fields[name] for name in fields if name not in floats}))


def _of(arrays: dict[str, np.ndarray], worker: int) -> dict[str, np.ndarray]:
    return {name: array[worker] for name, array in arrays.items()}


def measure(compressor: Compressor | str, gradients: Sequence[Any], key: jax.Array) -> tuple[Traffic, Any]:
    """Runs one step of n simulated workers, from fresh state, and counts its bytes.

    Args:
      compressor: the compressor, or its spec string.
      gradients: one pytree of float arrays per worker.
      key: a `jax.random.key`.

    Returns:
      Worker 0's traffic, and the mean that all workers get.

    Raises:
      InvalidArgumentError: the spec string is not allowed, or there are no workers.

    Example:
      >>> import jax
      >>> import numpy as np
      >>> from jaxina import compressors
      >>> gradients = [np.ones(1000, np.float32)] * 4
      >>> traffic, mean = compressors.measure("int8", gradients, jax.random.key(0))
      >>> traffic
      Traffic(sent=1005, received=1005)
    """
    compressor = chosen(compressor)
    if not gradients:
        raise InvalidArgumentError("measure() needs the gradients of at least one worker")
    meter = Meter(compressor)
    state = compressor.init(gradients[0], key)
    stacked = jax.tree.map(lambda *leaves: jax.numpy.stack(leaves), *gradients)
    step = jax.vmap(lambda g: meter.update(g, state, "workers"), axis_name="workers")
    mean, _, arrays = jax.jit(step, compiler_options=_RUN_ONCE)(stacked)
    return meter.traffic(arrays), jax.tree.map(lambda leaf: leaf[0], mean)
