"""What messages say, as the cores take it."""

from __future__ import annotations

from collections.abc import Iterable

from jaxina.fabric.model import Optimizer
from jaxina.fabric.service import fabric_pb2 as pb
from jaxina.fabric.turns import Expected


def expected_of(turns: Iterable[pb.Turn]) -> list[Expected]:
    """The updates that turns are for."""
    return [Expected(turn.name, turn.version, turn.size, turn.norm) for turn in turns]


def optimizer_of(joined: pb.Joined) -> Optimizer:
    """The server's optimizer."""
    told = joined.optimizer
    return Optimizer(told.learning_rate, told.momentum, told.nesterov)
