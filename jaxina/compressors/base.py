"""The interface that all gradient compressors share.

A compressor is a frozen, hashable description (its parameters); what changes from step to step is explicit state, a
pytree. It works leaf by leaf on pytrees of float32 arrays, inside `jax.jit`, `jax.shard_map` or `jax.vmap`::

    compressor = compressors.get("topk:0.01")
    state = compressor.init(params, jax.random.key(0))                 # the same key on every worker
    mean, state = compressor.update(gradients, state, "workers")       # inside a shard_map over "workers"

To add one, write a file with a subclass of `Compressor` that has `promise`, `kind`, `encode`, `decode` and `fields`,
and name it in `registry`.

Values that are not finite. They must not be hidden, and must not poison a memory. A leaf that is not finite on any
worker gives NaN in all elements on all workers, and leaves that leaf's state as it was, so that a training loop may
skip the step. It costs one flag per leaf. Compressors that send plain floating point (`carries_non_finite`) give what
IEEE-754 gives instead, element by element.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp

from jaxina.compressors import packing, rounds
from jaxina.compressors.packing import Field
from jaxina.compressors.rounds import GATHER, MAX, SUM, Arrays, LeafReduction, Message
from jaxina.errors import InvalidArgumentError

POISON = "poison"
"""Entry of a leaf's first message, []: 1 from a worker whose leaf holds a value that is not finite."""


@dataclasses.dataclass(frozen=True)
class Promise:
    """What a compressor guarantees, for `docs/compressors.md` and for the tests that hold it to it.

    Attributes:
      title: the algorithm's usual name.
      paper: authors, title, venue and year.
      unbiased: the expectation of the decoded array over the keys is the array.
      error_feedback: "on" and "off" say the default where it may be chosen; "own" is an algorithm with a memory of its
        own; "no" where it would not converge, since the error may exceed the array.
      note: what a user must know before using it.
    """

    title: str
    paper: str
    unbiased: bool
    error_feedback: Literal["on", "off", "own", "no"]
    note: str


@dataclasses.dataclass(frozen=True)
class Context:
    """What encoding and decoding one leaf may depend on, besides its values and its state.

    Attributes:
      shape: the leaf's shape.
      workers: n.
      key: random key of this leaf in this step, the same on all workers.
      worker: this worker's number.
      agreed: the elementwise maximum over workers of what `propose` returned.
    """

    shape: tuple[int, ...]
    workers: int
    key: jax.Array
    worker: jax.Array | int = 0
    agreed: Arrays = dataclasses.field(default_factory=dict)

    @property
    def shared_key(self) -> jax.Array:
        """For random numbers that are the same on all workers."""
        return jax.random.fold_in(self.key, 0)

    @property
    def private_key(self) -> jax.Array:
        """For random numbers that differ between workers."""
        return jax.random.fold_in(self.key, 1 + self.worker)

    @property
    def size(self) -> int:
        """d, the leaf's number of elements."""
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compressor(abc.ABC):
    """Base class. Subclasses are frozen dataclasses whose fields are the parameters of a spec string.

    Attributes:
      ef: error feedback: what a step could not send is added to the next step's array. None: as the promise says.
    """

    ef: bool | None = None

    promise: ClassVar[Promise]
    kind: ClassVar[str]
    """SUM: payloads are summed by the aggregator, and `decode` of the sum is the sum of the decoded payloads.
    GATHER: every worker receives every payload."""
    carries_non_finite: ClassVar[bool] = False

    def __post_init__(self) -> None:
        choice = self.promise.error_feedback
        if self.ef and choice in ("no", "own"):
            raise InvalidArgumentError(f"{type(self).__name__} takes no error feedback (its promise is {choice!r})")
        if self.ef is False and choice == "own":
            raise InvalidArgumentError(f"{type(self).__name__} is not defined without its memory")

    @property
    def error_feedback(self) -> bool:
        return self.promise.error_feedback == "on" if self.ef is None else self.ef

    # What a subclass provides.

    def init_leaf(self, x: jax.Array, key: jax.Array) -> Arrays:
        """State of one leaf besides error feedback's memory."""
        del x, key
        return {}

    def propose(self, x: jax.Array) -> Arrays:
        """Small arrays of which all workers need the elementwise maximum before they encode."""
        del x
        return {}

    def propose_fields(self) -> Mapping[str, Field]:
        """How the arrays of `propose` are packed."""
        return {}

    @abc.abstractmethod
    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        """One finite leaf, float32 of `context.shape`, to its payload and its state with the algorithm's
        own entries replaced. SUM payloads must be int32 or float32, which aggregators sum."""

    @abc.abstractmethod
    def decode(self, payload: Arrays, context: Context) -> jax.Array:
        """A payload (or, for SUM, a sum of payloads) to float32 of `context.shape`."""

    @abc.abstractmethod
    def fields(self, context: Context, summed: bool) -> Mapping[str, Field]:
        """How the payload is packed on the wire; `summed` asks for the aggregator's sum over `context.workers`."""

    def mean(self, total: jax.Array, workers: int) -> jax.Array:
        """From the sum of the decoded payloads to the result."""
        return total / workers

    # What users call.

    def init(self, params: Any, key: jax.Array) -> dict[str, Any]:
        """The state before the first step.

        Args:
          params: pytree of arrays, of the shapes of the gradients.
          key: a `jax.random.key`, the same on every worker; workers draw different numbers all the same.
        """
        leaves = []
        for index, x in enumerate(jax.tree.leaves(params)):
            state = self.init_leaf(x, jax.random.fold_in(key, index))
            if self.error_feedback:
                state["memory"] = jnp.zeros(x.shape, jnp.float32)
            leaves.append(state)
        return {"key": key, "step": jnp.zeros((), jnp.int32), "leaves": leaves}

    def update(self, gradients: Any, state: dict[str, Any], axis_name: Any = None) -> tuple[Any, dict[str, Any]]:
        """The mean of the workers' compressed gradients, and the next state.

        Args:
          gradients: this worker's pytree of floating-point arrays; computed with in float32.
          state: this worker's state. Memories differ between workers.
          axis_name: the mapped axis of the workers; None for one worker alone, who compresses and decompresses.

        Returns:
          The mean, the same on every worker, with the shapes and dtypes of `gradients`; the next state.
        """
        mean, state, _ = self.update_with_traffic(gradients, state, axis_name)
        return mean, state

    def update_with_traffic(
        self, gradients: Any, state: dict[str, Any], axis_name: Any = None
    ) -> tuple[Any, dict[str, Any], list[rounds.Exchange]]:
        """As `update`, and also all that was sent and answered, for `jaxina.compressors.traffic`."""
        leaves, structure = jax.tree.flatten(gradients)
        workers = 1 if axis_name is None else jax.lax.axis_size(axis_name)
        me = 0 if axis_name is None else jax.lax.axis_index(axis_name)
        step_key = jax.random.fold_in(state["key"], state["step"])
        reductions = []
        for index, (x, leaf_state) in enumerate(zip(leaves, state["leaves"], strict=True)):
            context = Context(x.shape, workers, jax.random.fold_in(step_key, index), me)
            reductions.append(self._reduce_or_poison(x.astype(jnp.float32), leaf_state, context))
        results, exchanges = rounds.run(reductions, axis_name)
        means = [mean.astype(x.dtype) for (mean, _), x in zip(results, leaves, strict=True)]
        next_state = {"key": state["key"], "step": state["step"] + 1, "leaves": [leaf for _, leaf in results]}
        return jax.tree.unflatten(structure, means), next_state, exchanges

    def to_bytes(self, payload: Arrays, context: Context, summed: bool = False) -> bytes:
        """A payload, or the aggregator's sum of payloads, as the bytes that go over the wire."""
        return packing.to_bytes(payload, self.fields(context, summed))

    def from_bytes(self, data: bytes, context: Context, summed: bool = False) -> Arrays:
        """What `to_bytes` wrote."""
        x = jnp.zeros(context.shape, jnp.float32)
        like = jax.eval_shape(lambda: self.encode(x, self.init_leaf(x, context.key), context)[0])
        arrays = packing.from_bytes(data, self.fields(context, summed), like)
        return {name: jnp.asarray(array) for name, array in arrays.items()}

    # How a leaf is reduced.

    def reduce(self, x: jax.Array, state: Arrays, context: Context) -> LeafReduction:
        """The rounds of one finite leaf: a generator of messages that returns (mean, next state).

        Only algorithms of several rounds, such as PowerSGD, write their own; they leave error feedback to `reduce` as
        well, by calling `with_memory` and `remember`.
        """
        x = self.with_memory(x, state)
        proposal = self.propose(x)
        if proposal:
            fields = self.propose_fields()
            agreed = yield Message(MAX, proposal, fields, fields)
            context = dataclasses.replace(context, agreed=agreed)
        payload, next_state = self.encode(x, state, context)
        message = Message(self.kind, payload, self.fields(context, False), self.fields(context, True))
        answer = yield message
        if self.kind == SUM:
            total = self.decode(answer, context)
        else:
            total = jax.vmap(lambda one: self.decode(one, context))(answer).sum(axis=0)
        if self.error_feedback:
            next_state = self.remember(x - self.decode(payload, context), next_state)
        return self.mean(total, context.workers), next_state

    def with_memory(self, x: jax.Array, state: Arrays) -> jax.Array:
        return x + state["memory"] if self.error_feedback else x

    def remember(self, error: jax.Array, state: Arrays) -> Arrays:
        """Elements that overflowed on the way (fp16) have no error that could be repaid."""
        return {**state, "memory": jnp.where(jnp.isfinite(error), error, 0)} if self.error_feedback else state

    def _reduce_or_poison(self, x: jax.Array, state: Arrays, context: Context) -> LeafReduction:
        """`reduce`, with the flag for values that are not finite added to the first message."""
        if x.size == 0:
            return x, state
        if self.carries_non_finite:
            return (yield from self.reduce(x, state, context))
        poisoned = ~jnp.isfinite(x).all()
        inner = self.reduce(jnp.where(poisoned, 0, x), state, context)
        message = next(inner)
        answer = dict((yield _with_flag(message, poisoned, context.workers)))
        flag = answer.pop(POISON).max() > 0
        while True:
            try:
                message = inner.send(answer)
            except StopIteration as end:
                mean, next_state = end.value
                lost = flag | ~jnp.isfinite(mean).all()  # the algorithm's own sums may overflow, too
                kept = jax.tree.map(functools.partial(jnp.where, lost), state, next_state)
                return jnp.where(flag, jnp.nan, mean), kept
            answer = yield message


def _with_flag(message: Message, poisoned: jax.Array, workers: int) -> Message:
    most = workers if message.kind == SUM else 1
    dtype = next(iter(message.arrays.values())).dtype  # no collective of its own
    return Message(
        message.kind,
        {**message.arrays, POISON: poisoned.astype(dtype)},
        {**message.fields, POISON: packing.integers(0, 1)},
        {**message.answer_fields, POISON: packing.integers(0, most)},
    )


__all__ = ["GATHER", "MAX", "SUM", "Arrays", "Compressor", "Context", "Field", "Message", "Promise"]
