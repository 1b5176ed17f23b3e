"""The three parts of a data set."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Splits(NamedTuple, Generic[T]):
    """The parts have no row in common.

    Attributes:
      train: what models are trained with.
      validation: what learning rates are chosen by.
      test: what results are scored by.
    """

    train: T
    validation: T
    test: T
