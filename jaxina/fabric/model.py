"""The server's model: a flat vector, and what commits do to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from jaxina.errors import InvalidArgumentError

Vector = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True, slots=True)
class Optimizer:
    """What an update does to the model: h <- momentum h + u, then w <- w + learning_rate (h or, with Nesterov's
    momentum, u + momentum h).

    With updates that are what local steps have changed, this is DiLoCo's outer optimizer (Douillard et al., 2023).
    Without momentum and with a rate of 1, an update is added as it is (MLfabric, equation 2).

    Attributes:
      learning_rate: positive.
      momentum: at least 0, below 1.
      nesterov: whether the momentum is Nesterov's.

    Raises:
      InvalidArgumentError: a number is out of range.
    """

    learning_rate: float = 1.0
    momentum: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.learning_rate < float("inf"):
            raise InvalidArgumentError(f"a learning rate of {self.learning_rate} is not a positive number")
        if not 0 <= self.momentum < 1:
            raise InvalidArgumentError(f"a momentum of {self.momentum} is not at least 0 and below 1")
        if self.nesterov and self.momentum == 0:
            raise InvalidArgumentError("Nesterov's momentum needs a momentum above 0")

    @property
    def sums(self) -> int:
        """How many vectors a sum of updates is: with momentum two, of momentum^(m-j) u_j and of
        (1 + ... + momentum^(m-j)) u_j."""
        return 1 if self.momentum == 0 else 2

    @property
    def longest_step(self) -> float:
        """At most so many times as long as h is the step of the model. The length of u is at most that of the bound on
        h, so Nesterov's step is at most (1 + momentum) times as long."""
        return self.learning_rate * (1 + self.momentum if self.nesterov else 1)

    def sum(self, updates: Sequence[Vector]) -> Vector:
        """Adds updates so that one commit does what a commit of each would, up to rounding.

        Args:
          updates: float32[elements] each, in the order of their turns. At least one.

        Returns:
          float32[sums * elements].
        """
        if self.momentum == 0:
            total = updates[0].copy()
            for update in updates[1:]:
                total += update
            return total
        gamma = np.float32(self.momentum)
        history = np.zeros_like(updates[0])
        moved = np.zeros_like(updates[0])
        for update in updates:
            history = gamma * history + update
            moved += history
        return np.concatenate([history, moved])


class Model:
    """A model and its optimizer's state. The same calls give the same bits.

    Args:
      weights: float32[elements]. They are copied.
      optimizer: what a commit does.
      history: float32[elements], h. None: zeros.
      version: how many turns it has had.

    Raises:
      InvalidArgumentError: an array has another shape or dtype, or is empty.
    """

    def __init__(self, weights: Vector, optimizer: Optimizer, history: Vector | None = None, version: int = 0) -> None:
        if weights.ndim != 1 or weights.dtype != np.float32 or not len(weights):
            raise InvalidArgumentError(f"a model is a float32 vector, not {weights.dtype} of shape {weights.shape}")
        self.weights = weights.copy()
        self.optimizer = optimizer
        self.version = version
        self.history: Vector | None = None
        if optimizer.momentum > 0:
            self.history = np.zeros_like(self.weights) if history is None else history.copy()
            if self.history.shape != self.weights.shape:
                raise InvalidArgumentError(f"a history of {len(self.history)} elements is not that of the model")

    def commit(self, total: Vector, updates: int, turns: int) -> None:
        """Commits a sum of updates.

        Args:
          total: float32[sums * elements], as `Optimizer.sum` makes it.
          updates: how many it has.
          turns: how many turns that takes, with those of updates that are lost.
        """
        elements = len(self.weights)
        assert len(total) == self.optimizer.sums * elements, "a sum of another model"
        rate = np.float32(self.optimizer.learning_rate)
        if self.history is None:
            self.weights += rate * total
        else:
            gamma = np.float32(self.optimizer.momentum)
            new, moved = total[:elements], total[elements:]
            powers = [np.float32(self.optimizer.momentum**k) for k in range(1, updates + 1)]
            path = np.float32(sum(powers)) * self.history + moved  # the sum of h after each of the updates
            if self.optimizer.nesterov:
                plain = (np.float32(1) - gamma) * moved + gamma * new  # the sum of the updates
                self.weights += rate * (plain + gamma * path)
            else:
                self.weights += rate * path
            self.history = powers[-1] * self.history + new
        self.version += turns

    def skip(self) -> None:
        """A turn whose update is lost: the model gets another version, and stays as it is."""
        self.version += 1

    def state(self) -> bytes:
        """The weights, and the history if there is one: float32, little endian."""
        parts = [self.weights] if self.history is None else [self.weights, self.history]
        return b"".join(part.astype("<f4").tobytes() for part in parts)


def model_of(state: bytes, optimizer: Optimizer, version: int) -> Model:
    """Makes a model of what another's `state` was.

    Raises:
      InvalidArgumentError: it is not the state of a model with such an optimizer.
    """
    vectors = vector_of(state)
    elements, rest = divmod(len(vectors), optimizer.sums)
    if rest:
        raise InvalidArgumentError(f"a state of {len(vectors)} numbers is not that of weights and their history")
    return Model(vectors[:elements], optimizer, vectors[elements:], version)


def vector_of(text: bytes) -> Vector:
    """Reads float32, little endian.

    Raises:
      InvalidArgumentError: the length is no multiple of 4.
    """
    if len(text) % 4:
        raise InvalidArgumentError(f"{len(text)} bytes are no float32 numbers")
    return np.frombuffer(text, "<f4").astype(np.float32)
