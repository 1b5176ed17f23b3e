"""What a compressor guarantees (`Promise`), and what it may depend on besides a leaf's values and state (`Context`)."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import jax

from jaxina.compressors.messages import Arrays
from jaxina.errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True)
class Promise:
    """What a compressor guarantees. docs/compressors.md shows it, and tests check it.

    Attributes:
      title: the algorithm's usual name.
      paper: authors, title, venue and year.
      unbiased: whether the decoded array, averaged over all random keys, is the array.
      error_feedback: "on" or "off": error feedback may be chosen, and this is the default. "own": the algorithm has a
        memory of its own. "no": error feedback would not converge, because the error may be larger than the array.
        "needless": nothing is lost that a later step could send.
      note: what a user must know before using the compressor.
    """

    title: str
    paper: str
    unbiased: bool
    error_feedback: Literal["on", "off", "own", "no", "needless"]
    note: str

    def check_feedback(self, chosen: bool | None, name: str) -> None:
        """Raises InvalidArgumentError if the class `name` rules out what a user has chosen for `Compressor.ef`."""
        why = {"own": "has a memory of its own", "no": "would not converge with it", "needless": "loses nothing"}
        if chosen and self.error_feedback in why:
            raise InvalidArgumentError(f"{name} takes no error feedback: it {why[self.error_feedback]}")
        if chosen is False and self.error_feedback == "own":
            raise InvalidArgumentError(f"{name} is not defined without its memory: leave out -ef")


@dataclasses.dataclass(frozen=True)
class Context:
    """What encoding and decoding one leaf may depend on, besides the leaf's values and state.

    Attributes:
      shape: the leaf's shape.
      workers: n, how many workers average.
      key: random key of this leaf in this step, the same on all workers.
      worker: this worker's number, from 0; int32[] if traced.
      agreed: the elementwise maximum over workers of what `Compressor.propose` returned.
      step: how many steps came before, int32[] if traced. Steps count whose gradients were not finite.
      params: the leaf's parameters before the step, if the caller of `Compressor.update` told them, else None. For
        methods that look at more than the gradient: weight decay before the momentum of DGC, or a precision relative to
        each weight.
      learning_rate: of this step, float32[] if traced, if the caller told it, else None. `Compressor.update` has what
        error feedback makes of it.
      wire_block: the block size of the job that carries the sums over the workers; 0 if jaxina does not carry them.
    """

    shape: tuple[int, ...]
    workers: int
    key: jax.Array
    worker: jax.Array | int = 0
    agreed: Arrays = dataclasses.field(default_factory=dict)
    step: jax.Array | int = 0
    params: jax.Array | None = None
    learning_rate: jax.Array | float | None = None
    wire_block: int = 0

    @property
    def shared_key(self) -> jax.Array:
        """A key for random numbers that are the same on all workers."""
        return jax.random.fold_in(self.key, 0)

    @property
    def private_key(self) -> jax.Array:
        """A key for random numbers that differ between workers."""
        return jax.random.fold_in(self.key, 1 + self.worker)

    @property
    def size(self) -> int:
        """d, how many elements the leaf has."""
        return math.prod(self.shape)
