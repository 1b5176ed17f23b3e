"""The parts of a plan."""

from __future__ import annotations

import dataclasses
import enum

from jaxina.fabric.calendar import Reservation
from jaxina.fabric.updates import Update


class DropReason(enum.Enum):
    """Why an update is not sent."""

    TOO_OLD = "it would break the delay bound"
    HOLDS_OTHERS_UP = "its deadline would put it before an update that arrives sooner"
    NO_PATH = "a link of its path has no rate"


@dataclasses.dataclass(frozen=True, slots=True)
class Dropped:
    """An update that is not sent, and why. Its worker goes on from a newer model."""

    update: Update
    reason: DropReason


@dataclasses.dataclass(frozen=True, slots=True)
class Transfer:
    """An update on its way from its worker to another host."""

    update: Update
    reservation: Reservation

    @property
    def end(self) -> int:
        """When its last byte has arrived, in nanoseconds."""
        return self.reservation.end


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Updates that reach the destination together, in the order of the plan.

    Attributes:
      aggregator: the host that adds them on their way. None if the one update goes to the destination directly.
      transfers: from the workers, to the aggregator or to the destination.
      last: the sum, from the aggregator to the destination. None if there is no aggregator.
    """

    aggregator: str | None
    transfers: tuple[Transfer, ...]
    last: Reservation | None = None

    @property
    def end(self) -> int:
        """When the destination has all of it, in nanoseconds."""
        return self.transfers[-1].end if self.last is None else self.last.end

    @property
    def updates(self) -> tuple[Update, ...]:
        """The updates in it."""
        return tuple(t.update for t in self.transfers)
