"""The interface that all gradient compressors share.

A compressor is a frozen, hashable object that holds only its parameters. What changes from step to step is explicit
state, a pytree. A compressor works leaf by leaf on pytrees of float32 arrays, inside `jax.jit`, `jax.shard_map` or
`jax.vmap`::

    compressor = compressors.get("topk:0.01")
    state = compressor.init(params, jax.random.key(0))                 # the same key on every worker
    own = jax.lax.pcast(params, "workers", to="varying")               # inside a shard_map over "workers"
    mean, state = compressor.update(jax.grad(loss)(own, batch), state, "workers")

To add a compressor, write a subclass of `Compressor` with `promise`, `kind`, `encode`, `decode` and `fields`, in a file
of its own, and give it a name with `jaxina.compressors.register`.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from jaxina.compressors import axes, non_finite, packing, rounds
from jaxina.compressors.context import Context, Promise
from jaxina.compressors.packing import Field
from jaxina.compressors.rounds import GATHER, MAX, SUM, Arrays, LeafReduction, Message


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compressor(abc.ABC):
    """Base class of all compressors: frozen dataclasses, whose fields are the parameters of a spec string.

    Attributes:
      ef: whether to use error feedback: what one step could not send is added to the next step's array (Karimireddy et
        al., Error Feedback Fixes SignSGD and other Gradient Compression Schemes, ICML 2019). None means the default
        that `promise` gives.
      promise: what the compressor guarantees.
      kind: SUM: the aggregator sums payloads, and `decode` of that sum is the sum of the decoded payloads, unless
        `aggregate` rounds it. GATHER: every worker receives every payload.
      carries_non_finite: whether NaN and infinities are sent as they are. If not, they are kept away from `encode`
        (``jaxina.compressors.non_finite``).

    Raises:
      InvalidArgumentError: a parameter is not allowed, or `ef` asks for what the promise rules out.

    Example:
      A compressor that rounds to whole numbers. With one worker, 0.4 is not lost but comes with a later step:

      >>> import dataclasses
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jaxina import compressors
      >>> from jaxina.compressors import packing
      >>> @dataclasses.dataclass(frozen=True, kw_only=True)
      ... class Rounded(compressors.Compressor):
      ...     promise = compressors.Promise(
      ...         title="rounded", paper="-", unbiased=False, error_feedback="on", note="For values within 127."
      ...     )
      ...     kind = compressors.SUM
      ...
      ...     def encode(self, x, state, context):
      ...         return {"words": jnp.clip(jnp.rint(x), -127, 127).astype(jnp.int32)}, state
      ...
      ...     def decode(self, payload, context):
      ...         return payload["words"].astype(jnp.float32)
      ...
      ...     def fields(self, context, summed):
      ...         largest = 127 * (context.workers if summed else 1)
      ...         return {"words": packing.integers(-largest, largest)}
      >>> gradient = jnp.array([0.4, 2.0])
      >>> compressor = Rounded()
      >>> state = compressor.init(gradient, jax.random.key(0))
      >>> for step in range(2):
      ...     mean, state = compressor.update(gradient, state)
      ...     print(mean)
      [0. 2.]
      [1. 2.]
    """

    ef: bool | None = None

    promise: ClassVar[Promise]
    kind: ClassVar[str]
    carries_non_finite: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.promise.check_feedback(self.ef, type(self).__name__)

    @property
    def error_feedback(self) -> bool:
        """Whether this compressor uses error feedback."""
        return self.promise.error_feedback == "on" if self.ef is None else self.ef

    # What a subclass provides.

    def init_leaf(self, x: jax.Array, key: jax.Array) -> Arrays:
        """Makes the state of one leaf, without the memory of error feedback.

        Args:
          x: the leaf's parameters, of the gradient's shape.
          key: random key of the leaf, the same on all workers.
        """
        del x, key
        return {}

    def propose(self, x: jax.Array) -> Arrays:
        """Makes small arrays whose elementwise maximum all workers need before they encode.

        Args:
          x: one finite leaf, float32.

        Returns:
          Arrays by name. The maximum over workers arrives in `Context.agreed`.
        """
        del x
        return {}

    def propose_fields(self) -> Mapping[str, Field]:
        """Tells how the arrays of `propose` are packed, by name."""
        return {}

    @abc.abstractmethod
    def encode(self, x: jax.Array, state: Arrays, context: Context) -> tuple[Arrays, Arrays]:
        """Encodes one leaf.

        Args:
          x: finite, float32, of `context.shape`.
          state: the leaf's state.
          context: what else the encoding may depend on.

        Returns:
          The payload, arrays by name, and the state with the algorithm's own entries replaced. Payloads of `kind` SUM
          must be int32 or float32: `update` refuses others, whose sums could wrap.
        """

    @abc.abstractmethod
    def decode(self, payload: Arrays, context: Context) -> jax.Array:
        """Decodes a payload, or for `kind` SUM a sum of payloads that is exact, to float32 of `context.shape`."""

    @abc.abstractmethod
    def fields(self, context: Context, summed: bool) -> Mapping[str, Field]:
        """Tells how the payload is packed on the wire, by name.

        Args:
          context: the leaf's.
          summed: False for one worker's payload, True for what the aggregator makes of `context.workers` payloads.
        """

    def aggregate(self, total: Arrays, context: Context) -> Arrays:
        """Does what the aggregator does to the sum of payloads before it sends it: nothing, unless overridden.

        Args:
          total: the sum of the payloads, for `kind` SUM.
          context: the leaf's.

        Returns:
          Arrays by name, which ``fields(context, summed=True)`` describes and `decode_sum` decodes.
        """
        del context
        return total

    def decode_sum(self, total: Arrays, context: Context) -> jax.Array:
        """Decodes what `aggregate` returned, to float32 of `context.shape`: as `decode`, unless overridden."""
        return self.decode(total, context)

    def mean(self, total: jax.Array, workers: int) -> jax.Array:
        """Makes the result of a leaf from the sum of the decoded payloads: its mean, unless overridden."""
        return total / workers

    # What users call.

    def init(self, params: Any, key: jax.Array) -> dict[str, Any]:
        """Makes the state before the first step.

        Args:
          params: pytree of arrays, of the shapes of the gradients.
          key: a `jax.random.key`, the same on every worker. Random numbers still differ between workers where they
            must.

        Returns:
          The state, a pytree: the key, the step's number and the leaves' states.
        """
        leaves = []
        for index, x in enumerate(jax.tree.leaves(params)):
            state = self.init_leaf(x, jax.random.fold_in(key, index))
            if self.error_feedback:
                state["memory"] = jnp.zeros(x.shape, jnp.float32)
            leaves.append(state)
        return {"key": key, "step": jnp.zeros((), jnp.int32), "leaves": leaves}

    def update(self, gradients: Any, state: dict[str, Any], axis_name: Any = None) -> tuple[Any, dict[str, Any]]:
        """Averages the workers' gradients, compressed.

        Args:
          gradients: this worker's pytree of floating-point arrays. All computations are in float32.
          state: this worker's state. Memories differ between workers.
          axis_name: the mapped axis of the workers. None for a single worker, which compresses and decompresses.

        Returns:
          The mean, the same on every worker, with the shapes and dtypes of `gradients`; and the next state.

        Raises:
          InvalidArgumentError: the compressor's parameters do not allow this number of workers; or, inside
            `jax.shard_map` with ``check_vma=True``, a gradient does not vary over `axis_name`. `jax.grad` has then
            summed it over the workers already, in float32, and a second sum would give n times the mean.

        Example:
          Four simulated workers send signs:

          >>> import jax
          >>> import jax.numpy as jnp
          >>> from jaxina import compressors
          >>> compressor = compressors.get("signsgd")
          >>> gradients = jnp.array([[1.0, -2.0], [3.0, -4.0], [5.0, 6.0], [7.0, 8.0]])
          >>> state = compressor.init(gradients[0], jax.random.key(0))
          >>> step = jax.vmap(lambda g: compressor.update(g, state, "workers")[0], axis_name="workers")
          >>> print(step(gradients)[0])
          [1. 0.]
        """
        mean, state, _ = self.update_with_traffic(gradients, state, axis_name)
        return mean, state

    def update_with_traffic(
        self, gradients: Any, state: dict[str, Any], axis_name: Any = None
    ) -> tuple[Any, dict[str, Any], list[rounds.Exchange]]:
        """As `update`. The third result is all that was sent and answered, for `jaxina.compressors.traffic`."""
        leaves, structure = jax.tree.flatten(gradients)
        workers, me = axes.place(axis_name)
        axes.check_varying(gradients, axis_name)
        step_key = jax.random.fold_in(state["key"], state["step"])
        reductions = []
        for index, (x, leaf_state) in enumerate(zip(leaves, state["leaves"], strict=True)):
            context = Context(x.shape, workers, jax.random.fold_in(step_key, index), me, step=state["step"])
            reductions.append(self._reduce_any(x.astype(jnp.float32), leaf_state, context))
        results, exchanges = rounds.run(reductions, axis_name)
        means = [mean.astype(x.dtype) for (mean, _), x in zip(results, leaves, strict=True)]
        next_state = {"key": state["key"], "step": state["step"] + 1, "leaves": [leaf for _, leaf in results]}
        return jax.tree.unflatten(structure, means), next_state, exchanges

    def to_bytes(self, payload: Arrays, context: Context, summed: bool = False) -> bytes:
        """Packs a payload into the bytes that go over the wire.

        Args:
          payload: what `encode` returned, or for `summed` what `aggregate` made of the sum of such payloads.
          context: the leaf's.
          summed: whether the payload is a sum.

        Raises:
          InvalidArgumentError: an integer is outside its field's range.
        """
        return packing.to_bytes(payload, self.fields(context, summed))

    def from_bytes(self, data: bytes, context: Context, summed: bool = False) -> Arrays:
        """Unpacks what `to_bytes` wrote.

        Raises:
          InvalidArgumentError: there are too few or too many bytes.
        """
        x = jnp.zeros(context.shape, jnp.float32)
        like = jax.eval_shape(lambda: self.encode(x, self.init_leaf(x, context.key), context)[0])
        arrays = packing.from_bytes(data, self.fields(context, summed), like)
        return {name: jnp.asarray(array) for name, array in arrays.items()}

    def reduce(self, x: jax.Array, state: Arrays, context: Context) -> LeafReduction:
        """Runs the rounds of one finite leaf.

        Only algorithms with several rounds, such as PowerSGD, override it. Their version must call `with_memory` and
        `remember`, so that error feedback works.

        Yields:
          Messages. The answer to each is sent back into the generator.

        Returns:
          The mean and the next state.
        """
        x = self.with_memory(x, state)
        proposal = self.propose(x)
        if proposal:
            fields = self.propose_fields()
            agreed = yield Message(MAX, proposal, fields, fields)
            context = dataclasses.replace(context, agreed=agreed)
        payload, next_state = self.encode(x, state, context)
        aggregate = functools.partial(self.aggregate, context=context)
        answer = yield Message(self.kind, payload, self.fields(context, False), self.fields(context, True), aggregate)
        if self.kind == SUM:
            total = self.decode_sum(answer, context)
        else:
            total = jax.vmap(lambda one: self.decode(one, context))(answer).sum(axis=0)
        if self.error_feedback:
            next_state = self.remember(x - self.decode(payload, context), next_state)
        return self.mean(total, context.workers), next_state

    def with_memory(self, x: jax.Array, state: Arrays) -> jax.Array:
        """Adds what earlier steps could not send, if error feedback is on."""
        return x + state["memory"] if self.error_feedback else x

    def remember(self, error: jax.Array, state: Arrays) -> Arrays:
        """Keeps what this step could not send, if error feedback is on.

        Elements that overflowed on the way (fp16) have an infinite error, which no later step could send; they keep 0.
        """
        return {**state, "memory": jnp.where(jnp.isfinite(error), error, 0)} if self.error_feedback else state

    def _reduce_any(self, x: jax.Array, state: Arrays, context: Context) -> LeafReduction:
        """Runs `reduce` for a leaf that may be empty, or hold values that are not finite."""
        if x.size == 0:
            return x, state
        if self.carries_non_finite:
            return (yield from self.reduce(x, state, context))
        return (yield from non_finite.flagged(self.reduce, x, state, context))


__all__ = ["GATHER", "MAX", "SUM", "Arrays", "Compressor", "Context", "Field", "Message", "Promise"]
