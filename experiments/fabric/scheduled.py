"""Training with MLfabric's scheduler: its plans, carried out over links that do what they like."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import simpy

from experiments.fabric.conditions import SERVER
from experiments.fabric.race import Race
from jaxina.fabric import Group, Policy, Scheduler, Settings, Update
from jaxina.fabric.calendar import NANOSECONDS
from jaxina.fabric.distribution import distribute


@dataclasses.dataclass
class _Sent:
    """An update that is ready, planned or on its way."""

    worker: int
    version: int
    change: Any


def scheduled(
    delay_bound: int,
    groups: int = 8,
    policy: Policy = Policy.EDF,
    local_steps: int = 1,
    batch_seconds: float = 0.1,
    distributors: int = 4,
    seed: int = 0,
) -> Callable[[Race], None]:
    """MLfabric-A: asynchronous, ordered, bounded, added on the way.

    Args:
      delay_bound, groups, policy: see `jaxina.fabric.Settings`.
      local_steps: an update is what so many steps on the worker's own copy change (asynchronous local SGD).
      batch_seconds: from one plan to the next.
      distributors: how many hosts pass a model on at most.
      seed: of the draw of aggregators.
    """
    settings = _Settings(delay_bound, groups, policy, local_steps, batch_seconds, distributors, seed)
    return lambda race: _Fabric(race, settings).start()


@dataclasses.dataclass(frozen=True)
class _Settings:
    delay_bound: int
    groups: int
    policy: Policy
    local_steps: int
    batch_seconds: float
    distributors: int
    seed: int


class _Fabric:
    def __init__(self, race: Race, own: _Settings) -> None:
        self.race = race
        self.env = race.env
        self.own = own
        self.star = race.conditions.star
        self.hosts = list(dict.fromkeys(race.conditions.host))
        settings = Settings(SERVER, own.delay_bound, aggregators=self.hosts, groups=own.groups, policy=own.policy)
        self.scheduler = Scheduler(self.star, settings, own.seed)
        race.conditions.on_rate.append(self.scheduler.set_rate)
        self.sent: dict[int, _Sent] = {}
        self.names = 0
        self.wanting: list[int] = list(range(race.cluster.workers))
        self.line: simpy.Store = simpy.Store(self.env)  # groups in the order of their commits

    def start(self) -> None:
        self.env.process(self._plan())
        self.env.process(self._commit())

    def _now(self) -> int:
        return round(self.env.now * NANOSECONDS)

    def _plan(self):
        while True:
            plan = self.scheduler.plan(self._now())
            for dropped in plan.dropped:
                self.race.outcome.dropped += self.own.local_steps
                self.wanting.append(self.sent.pop(dropped.update.name).worker)
            for group in plan.groups:
                self.line.put((group, self.env.process(self._deliver(group))))
            self._distribute()
            yield self.env.timeout(self.own.batch_seconds)

    def _deliver(self, group: Group):
        yield self.env.all_of([self.env.process(self._transfer(t.reservation)) for t in group.transfers])
        if group.last is not None:
            yield self.env.process(self._transfer(group.last))

    def _transfer(self, reservation):
        """Begins when the plan says so. How long it takes is up to the links."""
        begin = reservation.pieces[0][0] if reservation.pieces else reservation.start
        if begin > self._now():
            yield self.env.timeout((begin - self._now()) / NANOSECONDS)
        yield self.race.conditions.links.send(reservation.path, reservation.size)

    def _commit(self):
        while True:
            group, delivered = yield self.line.get()
            yield delivered
            sent = [self.sent.pop(u.name) for u in group.updates]
            self.race.commit([s.change for s in sent], [s.version for s in sent], self.own.local_steps)
            self.wanting += [s.worker for s in sent]

    def _distribute(self) -> None:
        """Sends the model of this moment to all workers that want it. Workers of one host share a transfer."""
        if not self.wanting:
            return
        workers, self.wanting = self.wanting, []
        host = self.race.conditions.host
        wanted = list(dict.fromkeys(host[w] for w in workers))
        given = distribute(
            self.star,
            self.scheduler.calendar,
            SERVER,
            wanted,
            [h for h in self.hosts if h in wanted][: self.own.distributors],
            self.race.cluster.size,
            self._now(),
        )
        model, version = self.race.learner.model, self.race.learner.version
        arrived = {h: self.env.event() for h in given}
        for destination, reservation in given.items():
            source = self._source(reservation.path)
            self.env.process(self._pass_on(arrived.get(source), reservation, arrived[destination]))
        for worker in workers:
            self.env.process(self._work(worker, arrived[host[worker]], model, version))

    def _source(self, path: tuple[int, ...]) -> str | None:
        return next((h for h in self.hosts if path and self.star.outgoing(h) == path[0]), None)

    def _pass_on(self, there: simpy.Event | None, reservation, arrived: simpy.Event):
        if there is not None:
            yield there
        yield self.env.process(self._transfer(reservation))
        arrived.succeed()

    def _work(self, worker: int, arrived: simpy.Event, model: Any, version: int):
        yield arrived
        yield self.race.compute(worker, self.own.local_steps)
        change = self.race.learner.change(model, worker, self.own.local_steps)
        name, self.names = self.names, self.names + 1
        self.sent[name] = _Sent(worker, version, change)
        size = self.race.cluster.size
        self.scheduler.add(Update(name, self.race.conditions.host[worker], size, version, self._now()))
