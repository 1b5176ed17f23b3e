"""What an aggregator collects and adds."""

from __future__ import annotations

from collections.abc import Sequence

from jaxina.errors import InvalidArgumentError, JobRejectedError, MismatchError
from jaxina.fabric.model import Optimizer, Vector
from jaxina.fabric.turns import Expected


class Gathering:
    """The updates of one sum. Each is added once, in the order of their turns, whatever comes first.

    Args:
      expected: the updates in that order.
      optimizer: of the server, which says what a sum is.
    """

    def __init__(self, expected: Sequence[Expected], optimizer: Optimizer) -> None:
        self._expected = {one.name: one for one in expected}
        self._optimizer = optimizer
        self._vectors: dict[int, Vector] = {}
        self._gone: set[int] = set()

    @property
    def names(self) -> list[int]:
        """All of the updates."""
        return list(self._expected)

    @property
    def complete(self) -> bool:
        """Whether all have come that still can."""
        return all(name in self._vectors or name in self._gone for name in self._expected)

    def check(self, name: int, version: int, size: int) -> None:
        """Checks whether a frame may come.

        Raises:
          JobRejectedError: the update is no part of the sum, or has come already.
          MismatchError: the version is not that of the plan.
          InvalidArgumentError: it has another size.
        """
        if name not in self._expected:
            raise JobRejectedError(f"update {name:#x} is not added here")
        if name in self._vectors or name in self._gone:
            raise JobRejectedError(f"update {name:#x} has come already, or is not waited for any more")
        one = self._expected[name]
        if version != one.version:
            raise MismatchError(f"update {name:#x} says that it is of version {version}, and the plan {one.version}")
        if size != one.size:
            raise InvalidArgumentError(f"update {name:#x} has {size} bytes, and the plan {one.size}")

    def arrive(self, name: int, update: Vector) -> None:
        """An update has come whole: float32[elements].

        Raises:
          JobRejectedError: the same update came first by another connection, or is not waited for any more.
        """
        one = self._expected[name]
        self.check(name, one.version, one.size)
        self._vectors[name] = update

    def abandon(self, names: Sequence[int]) -> None:
        """These updates cannot come any more. Those that have come stay."""
        self._gone.update(name for name in names if name not in self._vectors)

    def sum(self) -> tuple[tuple[int, ...], int, Vector] | None:
        """The names of the updates that have come, the newest of their versions, and their sum. None if none has."""
        assert self.complete, "a sum without all of its updates"
        names = tuple(name for name in self._expected if name in self._vectors)
        if not names:
            return None
        version = max(self._expected[name].version for name in names)
        return names, version, self._optimizer.sum([self._vectors[name] for name in names])
