"""Turns plans into messages: who sends what to whom, when and how fast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxina.fabric.calendar import Reservation
from jaxina.fabric.distribution import distribute
from jaxina.fabric.network import Star
from jaxina.fabric.plans import Group
from jaxina.fabric.scheduler import Scheduler
from jaxina.fabric.service import fabric_pb2 as pb
from jaxina.fabric.service.hosts import Hosts
from jaxina.fabric.service.planned import Planned
from jaxina.fabric.service.settings import SERVER
from jaxina.fabric.updates import Update


class Carrier:
    """Carries out what is planned.

    The replica gets each update from its worker, never in a sum: so it can leave out any that the server has lost.

    Args:
      hosts: who is there.
      star: their links.
      scheduler: has the calendar, in which transfers that no plan has are reserved.
      elements: of the model.
      replica: its place, if there is one.

    Attributes:
      server, replica: the places of the models.
    """

    def __init__(self, hosts: Hosts, star: Star, scheduler: Scheduler, elements: int, replica: str | None) -> None:
        self.server = SERVER
        self.replica = replica
        self._hosts = hosts
        self._star = star
        self._scheduler = scheduler
        self._model_bytes = 4 * elements
        self._groups = 0
        self._state_until = 0  # the replica gets the model until then, by plan

    def carry(self, group: Group, now: int) -> int:
        """Has a group's updates sent. Returns the number of their sum; 0 if the update goes alone."""
        if group.aggregator is None or group.last is None:
            self._send(group.transfers[0].update, self.server, group.transfers[0].reservation, now)
            return 0
        self._groups += 1
        for transfer in group.transfers:
            if transfer.update.worker != group.aggregator:
                self._send(transfer.update, group.aggregator, transfer.reservation, now)
        gather = pb.Gather(group=self._groups, turns=[_turn(update) for update in group.updates])
        gather.way.CopyFrom(self._way(self.server, group.last, now))
        self._hosts.tell(self._hosts.find(group.aggregator), gather=gather)
        return self._groups

    def announce(self, first: int, planned: Sequence[Planned]) -> None:
        """Tells the models' hosts the next turns."""
        if not planned:
            return
        for name in (self.server, self.replica):
            if name is not None:
                turns = [_turn(one.update) for one in planned]
                self._hosts.tell(self._hosts.find(name), turns=pb.Turns(first=first, turns=turns))

    def replicate(self, groups: Sequence[Group], now: int) -> None:
        """Has the replica's updates sent."""
        for group in groups:
            assert self.replica is not None and group.aggregator is None, "the replica's updates come alone"
            self._send(group.transfers[0].update, self.replica, group.transfers[0].reservation, now)

    def redirect(self, update: Update, now: int) -> None:
        """Has an update sent to the server alone, that was planned another way. It takes what is free."""
        path = self._star.path(update.worker, self.server)
        self._send(update, self.server, self._scheduler.calendar.reserve(path, update.size, now), now)

    def give(self, wants: Mapping[str, int], now: int) -> list[str]:
        """Has the model sent to those who want it, as far as there are ways. Returns to whom."""
        calendar = self._scheduler.calendar
        reached = [
            name
            for name in wants
            if calendar.end(self._star.path(self.server, name), self._model_bytes, now) is not None
        ]
        if not reached:
            return []
        ways = distribute(self._star, calendar, self.server, reached, (), self._model_bytes, now)
        for name in reached:
            give = pb.Give(name=wants[name], way=self._way(name, ways[name], now))
            self._hosts.tell(self._hosts.find(self.server), give=give)
        return reached

    def give_state(self, now: int) -> None:
        """Has the server's model, with the optimizer's state, sent to the replica."""
        if self.replica is None or now < self._state_until:
            return
        size = self._model_bytes * 2
        reservation = self._scheduler.calendar.reserve(self._star.path(self.server, self.replica), size, now)
        self._state_until = now if reservation is None else reservation.end
        give = pb.Give(whole=True, way=self._way(self.replica, reservation, now))
        self._hosts.tell(self._hosts.find(self.server), give=give)

    def state_came(self) -> None:
        """The replica has got on, so no model is on its way that it waits for. It may be given the next at once."""
        self._state_until = 0

    def _send(self, update: Update, destination: str, reservation: Reservation | None, now: int) -> None:
        send = pb.Send(name=update.name, version=update.version, way=self._way(destination, reservation, now))
        self._hosts.tell(self._hosts.owner(update.name), send=send)

    def _way(self, destination: str, reservation: Reservation | None, now: int) -> pb.Way:
        """How to get there. Without a reservation, as fast as it goes."""
        host = self._hosts.find(destination)
        way = pb.Way(host=destination, address="" if host is None else host.address)
        for begin, end, rate in () if reservation is None else reservation.pieces:
            way.pieces.append(pb.Piece(begin_ns=begin - now, end_ns=end - now, bytes_per_s=rate))
        return way


def _turn(update: Update) -> pb.Turn:
    return pb.Turn(name=update.name, version=update.version, size=update.size, norm=update.norm)
