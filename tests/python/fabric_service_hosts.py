"""The hosts of a job in virtual time (`fabric_service_world`)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from jaxina.errors import JaxinaError
from jaxina.fabric.follower import Follower
from jaxina.fabric.gathering import Gathering
from jaxina.fabric.ledger import Ledger
from jaxina.fabric.model import Model, Optimizer, model_of
from jaxina.fabric.service import fabric_pb2 as pb
from jaxina.fabric.service.messages import expected_of
from jaxina.fabric.turns import Arrived, Lost

if TYPE_CHECKING:
    from fabric_service_world import World

ELEMENTS = 4
SIZE = 4 * ELEMENTS
SECOND = 1_000_000_000
PATIENCE = 2.0


@dataclasses.dataclass
class Told:
    """What a worker was told about an update."""

    committed: bool
    version: int


class Holder:
    """A server or replica, as `ModelServer` is."""

    def __init__(self, world: World, host) -> None:
        self.world, self.host = world, host
        self.serves = host.role == pb.SERVER
        self.turns = Ledger(0, 0.0, world.bound) if self.serves else Follower()
        self.model = Model(np.zeros(ELEMENTS, np.float32), Optimizer())
        self.committed: list[int] = []
        self.committed_names: set[int] = set()
        self.given = None  # the server's model, and what it has committed
        self.told = 0
        self.asked = -(10**18)

    def handle(self, message) -> None:
        kind = message.WhichOneof("kind")
        if kind == "turns":
            self.turns.plan(message.turns.first, expected_of(message.turns.turns))
        elif kind == "abandon":
            self.turns.abandon(list(message.abandon.names))
        elif kind == "decided" and not self.serves:
            self.turns.judge(list(message.decided.committed))
        elif kind == "received":
            self.turns.replica_has(message.received.turns)
        elif kind == "alone":
            self.turns.stop_waiting_for_replica()
        elif kind == "give":
            self.give(message.give)
        elif kind == "promote":
            self.given = None
            known = self.turns.judged - self.turns.next
            results = self.apply(self.turns.take_over())
            self.turns, self.serves = Ledger(self.turns.planned), True
            self.world.say(self.host, decided=pb.Decided(committed=results[known:]))
        self.advance()

    def give(self, give) -> None:
        held = self.held()

        def arrive() -> None:
            if self.host.number in self.world.dead:
                return
            for host in self.world.hosts.values():
                if host.host.name == give.way.host and host.host.number not in self.world.dead:
                    host.load(give.name, *held)

        self.world.after(self.world.random.choice([0.05, 1]), arrive)

    def held(self) -> tuple[bytes, int, list[int]]:
        """What it gives to others: the model, its version, and what is committed in it."""
        return self.model.state(), self.model.version, list(self.committed)

    def load(self, _, state, version, names) -> None:
        if not self.serves:
            self.given = model_of(state, Optimizer(), version), names
            self.advance()

    def load_given(self) -> None:
        if self.given is None or self.turns.judged < self.given[0].version:
            return
        (given, names), self.given = self.given, None
        self.asked = -(10**18)
        if given.version >= self.turns.next:
            self.model = given
            self.turns.load(given.version)
            self.committed, self.committed_names = list(names), set(names)

    def take(self, names, version, total, is_sum) -> bool | None:
        if not self.turns.knows(names):
            return None
        try:
            self.turns.check(names, version, SIZE, SIZE if is_sum else None)
            self.turns.arrive(Arrived(names, total, b"", is_sum))
        except JaxinaError:
            return False
        self.advance()
        return True

    def advance(self) -> None:
        if self.serves:
            results = self.apply(self.turns.decide())
            if results:
                self.world.say(self.host, decided=pb.Decided(committed=results))
            if self.turns._bound is not None:
                self.world.check_divergence(self)
            return
        self.load_given()
        self.apply(self.turns.decide())
        if self.turns.received > self.told:
            self.told = self.turns.received
            self.world.say(self.host, received=pb.Received(turns=self.told))
        if self.turns.behind and self.world.now - self.asked > PATIENCE * SECOND:
            self.asked = self.world.now
            self.world.say(self.host, behind=pb.Behind())

    def has(self, name: int) -> bool:
        """Whether it has got an update, committed or not."""
        turn = self.turns._by_name.get(name)
        return name in self.committed_names or (turn is not None and turn.arrived is not None)

    def apply(self, decisions) -> list[bool]:
        results = []
        for decision in decisions:
            if isinstance(decision, Lost):
                self.model.skip()
                results.append(False)
                continue
            self.model.commit(decision.arrived.total, len(decision.arrived.names), len(decision.committed))
            results += decision.committed
            self.committed += decision.arrived.names
            self.committed_names.update(decision.arrived.names)
        assert self.model.version == self.turns.next or not self.serves
        return results


class Worker:
    """A worker, as `Client` is. It has up to three updates at once."""

    def __init__(self, world: World, host) -> None:
        self.world, self.host = world, host
        self.count = 0
        self.own: dict[int, int] = {}  # name -> version
        self.done: set[int] = set()
        self.gatherings: dict[int, tuple[Gathering, pb.Way]] = {}
        self.want()

    def name(self) -> int:
        self.count += 1
        return self.host.number << 32 | self.count

    def want(self) -> None:
        self.request = self.name()
        self.world.say(self.host, want=pb.Want(name=self.request))

    def load(self, request, _, version, __) -> None:
        if request == self.request:
            self.request = None
            self.world.after(self.world.random.choice([0.01, 0.5]), lambda: self.submit(version))

    def submit(self, version: int) -> None:
        if self.host.number in self.world.dead or self.world.now > self.world.quiet:
            return
        for _ in range(self.world.random.randint(1, 3)):
            name = self.name()
            whole = np.array([self.world.random.randint(-9, 9) for _ in range(ELEMENTS)], np.float32)
            # Sixty-fourths, so that sums are exact.
            self.world.updates[name] = whole / np.float32(self.world.random.choice([64, 8, 2]))
            self.own[name] = version
            norm = float(np.linalg.norm(self.world.updates[name].astype(np.float64)))
            ready = pb.Ready(name=name, size=SIZE, version=version, norm=norm)
            self.world.say(self.host, ready=ready)

    def handle(self, message) -> None:
        kind = message.WhichOneof("kind")
        if kind == "send" and message.send.name in self.own:
            send, way = message.send, message.send.way
            total = self.world.updates[send.name]
            self.world.send(
                self.host.number, way, (send.name,), send.version, total, False, lambda: send.name in self.own
            )
        elif kind == "gather":
            gathering = Gathering(expected_of(message.gather.turns), Optimizer())
            self.gatherings[message.gather.group] = gathering, message.gather.way
            for name in gathering.names:
                if name in self.own:
                    gathering.arrive(name, self.world.updates[name])
            self.forward(message.gather.group)
        elif kind == "abandon":
            for group in list(self.gatherings):
                self.gatherings[group][0].abandon(list(message.abandon.names))
                self.forward(group)
        elif kind == "ungroup":
            self.gatherings.pop(message.ungroup.group, None)
            if self.world.random.random() < 0.5:  # or else the sum is on its last way already
                self.done.add(message.ungroup.group)
        elif kind == "outcome":
            told = message.outcome
            assert told.name not in self.world.told, "two outcomes"
            self.world.told[told.name] = Told(told.committed, told.version)
            if all(name in self.world.told for name in self.own):
                self.want()
        elif kind == "release":
            for name in message.release.names:
                del self.own[name]
        else:
            assert kind in ("joined", "send"), message

    def forward(self, group: int) -> None:
        gathering, way = self.gatherings[group]
        if not gathering.complete:
            return
        del self.gatherings[group]
        if (done := gathering.sum()) is not None:
            names, version, total = done
            self.world.send(self.host.number, way, names, version, total, True, lambda: group not in self.done)

    def take(self, names, version, total, is_sum) -> bool | None:
        group = next((g for g, (gathering, _) in self.gatherings.items() if names[0] in gathering.names), None)
        if group is None:
            return None if self.world.random.random() < 0.9 else False
        try:
            self.gatherings[group][0].check(names[0], version, SIZE)
            self.gatherings[group][0].arrive(names[0], total)
        except JaxinaError:
            return False
        self.forward(group)
        return True
