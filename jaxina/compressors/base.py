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

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxina.compressors import leaf_states, messages, packing, updates
from jaxina.compressors.algorithm import Algorithm
from jaxina.compressors.context import Context, Promise
from jaxina.compressors.messages import ALL_TO_ALL, GATHER, MAX, REDUCE_SCATTER, SUM, Arrays, LeafReduction, Message
from jaxina.compressors.packing import Field


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compressor(Algorithm):
    """Base class of all compressors: frozen dataclasses, whose fields are the parameters of a spec string.

    `Algorithm` has the attributes and what a subclass provides.

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

    def init(self, params: Any, key: jax.Array) -> dict[str, Any]:
        """Makes the state before the first step.

        Args:
          params: pytree of arrays, of the shapes of the gradients.
          key: a `jax.random.key`, the same on every worker. Random numbers still differ between workers where they
            must.

        Returns:
          The state, a pytree: the key, the step's number and ``leaves``. There, each name has a tree like `params` with
          the leaves' arrays of that name. With error feedback, ``memory`` has the shapes of `params`.

        Raises:
          InvalidArgumentError: `init_leaf` gives other names for other leaves.
        """
        # A copy, since a step that is given the state's memory (`donate_argnums`) takes the key's with it.
        own_key = jnp.copy(key)
        leaves = leaf_states.make(self.first_of_leaf, params, key)
        return {"key": own_key, "step": jnp.zeros((), jnp.int32), "leaves": leaves}

    def first_of_leaf(self, x: jax.Array, key: jax.Array) -> Arrays:
        """Makes the state of one leaf: what `init_leaf` makes, and the memory of error feedback."""
        return self.init_leaf(x, key) | ({"memory": jnp.zeros(x.shape, jnp.float32)} if self.error_feedback else {})

    def update(
        self,
        gradients: Any,
        state: dict[str, Any],
        axis_name: Any = None,
        *,
        params: Any = None,
        learning_rate: jax.Array | float | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Averages the workers' gradients, compressed.

        **Error feedback under a learning-rate schedule.** The papers accumulate updates, gamma times the gradient
        (Karimireddy et al., ICML 2019, algorithm 2). What a step owes counts with that step's rate, whatever the rate
        is when it is sent. With `learning_rate`, the memory is that, and the mean still is one of gradients, to be
        multiplied by the rate: ``x = g + memory / gamma``, then ``memory = gamma (x - decoded)``. In a step with
        gamma = 0, which changes no parameters, the memory stays as it is. Without `learning_rate`, gradients are
        accumulated, and what is owed counts with the rate of the step in which it is sent.

        Args:
          gradients: this worker's pytree of floating-point arrays. All computations are in float32.
          state: this worker's state. Memories differ between workers.
          axis_name: the mapped axis of the workers. None for a single worker, which compresses and decompresses.
          params: the parameters, of the structure of `gradients`, for compressors that look at them (`Context.params`).
          learning_rate: gamma, at least 0, the same on every worker: the rate by which the optimizer will multiply this
            step's mean. None if it is constant, or not known.

        Returns:
          The mean, the same on every worker, with the shapes and dtypes of `gradients`; and the next state.

        Raises:
          InvalidArgumentError: the compressor's parameters do not allow this number of workers; a gradient is not of
            floating point; `state` or `params` is of other leaves than `gradients`, or `state` of other shapes; the
            learning rate is not a finite number of at least 0; or, inside
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
        mean, state, _ = self.update_with_traffic(
            gradients, state, axis_name, params=params, learning_rate=learning_rate
        )
        return mean, state

    def update_with_traffic(
        self,
        gradients: Any,
        state: dict[str, Any],
        axis_name: Any = None,
        *,
        params: Any = None,
        learning_rate: jax.Array | float | None = None,
    ) -> tuple[Any, dict[str, Any], list[messages.Exchange]]:
        """As `update`. The third result is all that was sent and answered, for `jaxina.compressors.traffic`."""
        return updates.run(self, gradients, state, axis_name, params, learning_rate)

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
        total = self.decode_sum(answer, context) if self.kind == SUM else self.decode_all(answer, context)
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


__all__ = [
    "ALL_TO_ALL",
    "GATHER",
    "MAX",
    "REDUCE_SCATTER",
    "SUM",
    "Arrays",
    "Compressor",
    "Context",
    "Field",
    "Message",
    "Promise",
]
