"""What an algorithm of gradient compression provides: how one leaf is encoded, summed and decoded."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import jax

from jaxina.compressors import parameters
from jaxina.compressors.context import Context, Promise
from jaxina.compressors.messages import Arrays
from jaxina.compressors.packing import Field


@dataclasses.dataclass(frozen=True, kw_only=True)
class Algorithm(abc.ABC):
    """What a subclass of `Compressor` provides, for one leaf.

    Attributes:
      ef: whether to use error feedback: what one step could not send is added to the next step's array (Karimireddy et
        al., Error Feedback Fixes SignSGD and other Gradient Compression Schemes, ICML 2019). None means the default
        that `promise` gives.
      promise: what the compressor guarantees.
      kind: SUM: the aggregator sums payloads, and `decode` of that sum is the sum of the decoded payloads, unless
        `aggregate` rounds it. GATHER: every worker receives every payload.
      carries_non_finite: whether NaN and infinities are sent as they are. If not, they are kept away from `encode`
        (``jaxina.compressors.non_finite``).
      revision: counts the changes after which recorded runs of `experiments` no longer tell how this compressor trains,
        or what it sends. Other random numbers of the same distribution are no such change.

    Raises:
      InvalidArgumentError: a parameter is not of its field's type or not allowed, or `ef` asks for what the promise
        rules out.
    """

    ef: bool | None = None

    promise: ClassVar[Promise]
    kind: ClassVar[str]
    carries_non_finite: ClassVar[bool] = False
    revision: ClassVar[int] = 1

    def __post_init__(self) -> None:
        parameters.make_plain(self)
        self.promise.check_feedback(self.ef, type(self).__name__)

    @property
    def error_feedback(self) -> bool:
        """Whether this compressor uses error feedback."""
        return self.promise.error_feedback == "on" if self.ef is None else self.ef

    def init_leaf(self, x: jax.Array, key: jax.Array) -> Arrays:
        """Makes the state of one leaf, without the memory of error feedback.

        Args:
          x: the leaf's parameters, of the gradient's shape.
          key: random key of the leaf, the same on all workers.

        Returns:
          Arrays by name. All leaves have the same names.
        """
        del x, key
        return {}

    def mean_shows_non_finite(self, context: Context) -> bool:
        """Whether a NaN or an infinity of any worker makes the mean NaN or infinite, on all workers.

        Then leaves of any values come to `reduce`, and none of its memory is kept of them.
        """
        del context
        return False

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

    def add_decoded(self, total: jax.Array, payload: Arrays, context: Context) -> jax.Array:
        """Adds one worker's decoded payload to a sum: as `decode` and a sum, unless overridden by what costs less.

        Args:
          total: float32, of `context.shape`.
          payload: a worker's, for `kind` GATHER.
          context: the leaf's.
        """
        return total + self.decode(payload, context)

    def decode_all(self, payloads: Arrays, context: Context) -> jax.Array:
        """Decodes and sums the payloads of all workers, for `kind` GATHER, to float32 of `context.shape`.

        It goes from worker to worker, so that it needs memory for one decoded array and not for n.

        Args:
          payloads: arrays [n, ...] by name.
          context: the leaf's.
        """

        def of(worker: jax.Array | int) -> Arrays:
            return {name: array[worker] for name, array in payloads.items()}

        def add(worker: jax.Array, total: jax.Array) -> jax.Array:
            return self.add_decoded(total, of(worker), context)

        (workers,) = {len(array) for array in payloads.values()}
        return jax.lax.fori_loop(1, workers, add, self.decode(of(0), context))

    def mean(self, total: jax.Array, workers: int) -> jax.Array:
        """Makes the result of a leaf from the sum of the decoded payloads: its mean, unless overridden."""
        return total / workers
