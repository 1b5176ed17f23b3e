"""Bytes on the wire, counted: every message of an update is packed, and the bytes are measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxina.compressors import packing
from jaxina.compressors.base import Compressor
from jaxina.compressors.rounds import GATHER, Message

_RUN_ONCE = {"xla_backend_optimization_level": 0}  # compiling takes longer than running


@dataclasses.dataclass(frozen=True)
class Traffic:
    """Bytes of one worker in one step, headers of packets not included.

    Attributes:
      sent: what it sends: to the aggregator, or to each of the others (a network that cannot multicast carries that
        n - 1 times).
      received: what it receives: the aggregator's answers, or the other workers' messages.
    """

    sent: int
    received: int


class Meter:
    """Runs a compressor's update and counts its bytes.

    `update` is `Compressor.update` with a third result, arrays that `traffic` understands after they have left
    `jax.jit` and `jax.shard_map` with a leading axis of workers.
    """

    def __init__(self, compressor: Compressor) -> None:
        self._compressor = compressor
        self._messages: list[Message] = []

    def update(self, gradients: Any, state: dict[str, Any], axis_name: Any = None) -> tuple[Any, dict[str, Any], Any]:
        mean, state, exchanges = self._compressor.update_with_traffic(gradients, state, axis_name)
        # Fields are the same at every trace; only their arrays leave the compiled program.
        self._messages = [dataclasses.replace(exchange.message, arrays={}) for exchange in exchanges]
        return mean, state, [(exchange.message.arrays, exchange.answer) for exchange in exchanges]

    def traffic(self, arrays: Any, worker: int = 0) -> Traffic:
        """What `worker` sent and received, from the third result of `update` of all workers: leaves [n, ...]."""
        exchanges = jax.tree.map(np.asarray, arrays)
        sent = received = 0
        for message, (ours, answer) in zip(self._messages, exchanges, strict=True):
            workers = len(next(iter(ours.values())))
            lengths = [len(packing.to_bytes(_of(ours, w), message.fields)) for w in _read(message, worker, workers)]
            sent += lengths[0]
            received += (
                sum(lengths[1:])
                if message.kind == GATHER
                else len(packing.to_bytes(_of(answer, worker), message.answer_fields))
            )
        return Traffic(sent, received)


def _read(message: Message, worker: int, workers: int) -> Sequence[int]:
    """The workers whose messages count, `worker` first."""
    others = [other for other in range(workers) if other != worker]
    return [worker, *others] if message.kind == GATHER else [worker]


def _of(arrays: dict[str, np.ndarray], worker: int) -> dict[str, np.ndarray]:
    return {name: array[worker] for name, array in arrays.items()}


def measure(compressor: Compressor, gradients: Sequence[Any], key: jax.Array) -> tuple[Traffic, Any]:
    """One step of n simulated workers from fresh state.

    Args:
      compressor: the compressor.
      gradients: one pytree per worker.
      key: a `jax.random.key`.

    Returns:
      Worker 0's traffic, and the mean that all workers get.
    """
    meter = Meter(compressor)
    state = compressor.init(gradients[0], key)
    stacked = jax.tree.map(lambda *leaves: jax.numpy.stack(leaves), *gradients)
    step = jax.vmap(lambda g: meter.update(g, state, "workers"), axis_name="workers")
    mean, _, arrays = jax.jit(step, compiler_options=_RUN_ONCE)(stacked)
    return meter.traffic(arrays), jax.tree.map(lambda leaf: leaf[0], mean)
