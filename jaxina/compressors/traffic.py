"""Counts the bytes that an update puts on the wire. Every message is packed, and its bytes are counted."""

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
    """What one worker sends and receives in one step, in bytes, without packet headers.

    Attributes:
      sent: bytes that the worker sends to the aggregator (SUM, MAX), or to each of the other workers (GATHER; a network
        without multicast carries these n - 1 times).
      received: bytes of the aggregator's answers (SUM, MAX), or of the other workers' messages (GATHER).
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
        self._messages: list[Message] = []

    def update(self, gradients: Any, state: dict[str, Any], axis_name: Any = None) -> tuple[Any, dict[str, Any], Any]:
        """As `Compressor.update`, with a third result for `traffic`."""
        mean, state, exchanges = self._compressor.update_with_traffic(gradients, state, axis_name)
        # Fields are the same at every trace, so they are kept here; only arrays can leave the compiled program.
        self._messages = [dataclasses.replace(exchange.message, arrays={}, aggregate=None) for exchange in exchanges]
        return mean, state, [(exchange.message.arrays, exchange.answer) for exchange in exchanges]

    def traffic(self, arrays: Any, worker: int = 0) -> Traffic:
        """Counts what one worker sent and received in one step.

        Args:
          arrays: the third results of `update` of all n workers, stacked: leaves [n, ...].
          worker: the worker's number, from 0.
        """
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
    """The workers whose messages `worker` sends or receives, `worker` first."""
    others = [other for other in range(workers) if other != worker]
    return [worker, *others] if message.kind == GATHER else [worker]


def _of(arrays: dict[str, np.ndarray], worker: int) -> dict[str, np.ndarray]:
    return {name: array[worker] for name, array in arrays.items()}


def measure(compressor: Compressor, gradients: Sequence[Any], key: jax.Array) -> tuple[Traffic, Any]:
    """Runs one step of n simulated workers, from fresh state, and counts its bytes.

    Args:
      compressor: the compressor.
      gradients: one pytree of float arrays per worker.
      key: a `jax.random.key`.

    Returns:
      Worker 0's traffic, and the mean that all workers get.

    Example:
      >>> import jax
      >>> import numpy as np
      >>> from jaxina import compressors
      >>> gradients = [np.ones(1000, np.float32)] * 4
      >>> traffic, mean = compressors.measure(compressors.get("int8"), gradients, jax.random.key(0))
      >>> traffic
      Traffic(sent=1005, received=1005)
    """
    meter = Meter(compressor)
    state = compressor.init(gradients[0], key)
    stacked = jax.tree.map(lambda *leaves: jax.numpy.stack(leaves), *gradients)
    step = jax.vmap(lambda g: meter.update(g, state, "workers"), axis_name="workers")
    mean, _, arrays = jax.jit(step, compiler_options=_RUN_ONCE)(stacked)
    return meter.traffic(arrays), jax.tree.map(lambda leaf: leaf[0], mean)
