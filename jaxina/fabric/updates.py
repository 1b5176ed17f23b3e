"""What a worker wants to add to the model."""

from __future__ import annotations

import dataclasses

from jaxina.errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True, slots=True)
class Update:
    """An update that is ready at its worker.

    Attributes:
      name: tells it from all others of the job.
      worker: the host that has it.
      size: bytes as they are sent, compressed if they are. Positive.
      version: the model's version that it was computed from: how many updates that model has.
      ready: when it was ready, in nanoseconds. Not negative.
      norm: its Euclidean length, for the bound on the replica's divergence.

    Raises:
      InvalidArgumentError: a number is out of range.
    """

    name: int
    worker: str
    size: int
    version: int
    ready: int = 0
    norm: float = 0.0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InvalidArgumentError(
                f"update {self.name} of {self.worker}: a size of {self.size} bytes is not positive"
            )
        if self.version < 0 or self.ready < 0:
            raise InvalidArgumentError(
                f"update {self.name} of {self.worker}: version {self.version} and time {self.ready} may not be negative"
            )
        if not 0 <= self.norm < float("inf"):
            raise InvalidArgumentError(
                f"update {self.name} of {self.worker}: its norm is {self.norm}, not a finite length"
            )
