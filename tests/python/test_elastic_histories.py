"""Random histories of an elastic team, whose members do what `jaxina.elastic.steps` does."""

from __future__ import annotations

import collections
import dataclasses
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rosters import join, take

from jaxina.elastic import elastic_pb2 as pb
from jaxina.elastic.membership import Rules
from jaxina.elastic.roster import Phase, Roster
from jaxina.errors import (
    JobRejectedError,
    NeverJoinedError,
    WorkerLostError,
)


@dataclasses.dataclass
class FakeMember:
    """A member that does what `jaxina.elastic.steps` does. Its state is the list of the steps that it has taken."""

    number: int
    inbox: collections.deque = dataclasses.field(default_factory=collections.deque)
    state: list = dataclasses.field(default_factory=list)
    formed: pb.Formed | None = None
    offer: tuple[int, list] = (0, [])
    waits: str = "formed"
    voted: int = -1


class World:
    def __init__(self, rng: random.Random, first: int, least: int):
        self.rng = rng
        self.roster = Roster(Rules(first, least, patience=10.0, timeout=20.0, heartbeat_timeout=1e9), rng.getrandbits)
        self.members: dict[int, FakeMember] = {}
        self.now = 0.0
        self.log: dict[int, tuple[int, tuple[int, ...]]] = {}  # by step: the generation, and its members

    def post(self):
        for number, messages in take(self.roster).items():
            if number in self.members:
                self.members[number].inbox.extend(messages)

    def join(self):
        try:
            number = join(self.roster, self.now)
        except JobRejectedError:
            return
        self.members[number] = FakeMember(number)
        self.post()

    def kill(self, member):
        del self.members[member.number]
        self.roster.lost(member.number, "died", self.now)
        self.post()

    def fail(self, member):
        if member.waits == "compute":
            member.waits = "formed"
            self.roster.failed(member.number, member.formed.generation, WorkerLostError("a sum"), self.now)
            self.post()

    def act(self, member):
        """Lets a member do the next thing. Returns whether there was something to do."""
        roster = self.roster
        if member.waits == "fetch":
            source = self.members.get(member.formed.members[member.formed.source].number)
            if source is not None and source.offer[0] == member.formed.generation:
                member.state = list(source.offer[1])
                self.get_ready(member)
                return True
        if member.waits == "compute":
            member.waits, member.voted = "commit", len(member.state)
            roster.vote(member.number, member.formed.generation, len(member.state), b"", self.now)
            self.post()
            return True
        if not member.inbox:
            return False
        message = member.inbox.popleft()
        kind = message.WhichOneof("kind")
        if kind == "ended":
            del self.members[member.number]
        elif kind == "formed":
            member.formed = message.formed
            if message.formed.has_state:
                assert len(member.state) == message.formed.step
                member.offer = message.formed.generation, list(member.state)
                self.get_ready(member)
            else:
                member.waits = "fetch"
        elif kind == "go":
            if member.waits == "go" and message.go.generation == member.formed.generation:
                member.waits = "compute"
        elif kind == "stopped":
            if member.formed is not None and message.stopped.generation >= member.formed.generation:
                if member.waits == "compute":
                    self.fail(member)
                member.waits = "formed"
        elif kind == "committed":
            assert member.waits == "commit" and member.voted == message.committed.step == len(member.state)
            entry = message.committed.generation, tuple(m.number for m in member.formed.members)
            assert self.log.setdefault(len(member.state), entry) == entry
            member.state.append(entry)
            member.waits = "compute"
        return True

    def get_ready(self, member):
        assert len(member.state) == member.formed.step
        member.waits = "go"
        self.roster.ready(member.number, member.formed.generation, self.now)
        self.post()

    def check(self):
        """Whoever has a state has got there by the same steps."""
        for member in self.members.values():
            assert member.state == [self.log[step] for step in range(len(member.state))]


@settings(max_examples=300)
@given(seed=st.integers(0, 2**32), first=st.integers(1, 4), least=st.integers(1, 3))
def test_random_histories(seed, first, least):
    """Members die, come, fail and read late, in any order. No two ever have different states, and the team goes on."""
    rng = random.Random(seed)
    world = World(rng, first, min(first, least))
    for _ in range(first):
        world.join()
    for _ in range(rng.randrange(200)):
        choice = rng.random()
        member = rng.choice(list(world.members.values())) if world.members else None
        if choice < 0.03:
            world.join()
        elif member is None:
            break
        elif choice < 0.06 and len(world.members) > 1:
            world.kill(member)
        elif choice < 0.07:
            world.fail(member)
        else:
            world.act(member)
        world.check()
    before = world.roster.step
    for _ in range(20000):
        if world.roster.step > before or world.roster.phase is Phase.FAILED:
            break
        acted = [world.act(member) for member in list(world.members.values())]
        if not any(acted):
            world.now += 1.0  # all wait for a deadline
            world.roster.tick(world.now)
            world.post()
        world.check()
    else:
        pytest.fail(f"the team stands still: {world.roster.phase}")
    if world.roster.phase is Phase.FAILED:
        assert isinstance(world.roster.error, (NeverJoinedError, WorkerLostError))
