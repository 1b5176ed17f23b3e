"""The decisions of an elastic team's keeper, without processes, sockets or a clock. Tests pass the time as a number."""

from __future__ import annotations

import collections
import dataclasses
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxina.elastic import elastic_pb2 as pb
from jaxina.elastic import roster as roster_module
from jaxina.elastic.membership import Rules
from jaxina.elastic.roster import GRACE, MOST_RETRIES, Phase, Roster
from jaxina.errors import (
    CollectiveTimeoutError,
    InvalidArgumentError,
    JobRejectedError,
    MismatchError,
    NeverJoinedError,
    TooManyWorkersError,
    WorkerLostError,
)


def join(roster, now=0.0, step=0, until=0, **terms):
    return roster.join(pb.Join(host="h", pid=7, address="127.0.0.1:1", terms=terms, step=step, until=until), now).number


def take(roster):
    """What the roster has told since the last call, by member."""
    told = collections.defaultdict(list)
    while roster.outbox:
        number, message = roster.outbox.popleft()
        told[number].append(message)
    return told


def kinds(messages):
    return [message.WhichOneof("kind") for message in messages]


def running(members=3, least=1, until=0, **rules):
    """A roster whose members have all begun to compute step 0."""
    roster = Roster(Rules(members, least, **rules))
    for _ in range(members):
        join(roster, until=until)
    for number in range(members):
        roster.ready(number, 1, 0.0)
    assert roster.phase is Phase.RUNNING
    take(roster)
    return roster


def begin(roster, now=0.0):
    """Makes all members of the new generation ready."""
    generation = roster.generation
    for number in list(roster.current):
        roster.ready(number, generation, now)


def vote(roster, *numbers, digest=b"", now=0.0):
    for number in numbers:
        roster.vote(number, roster.generation, roster.step, digest, now)


def test_a_team_begins_when_all_members_are_there_and_ready():
    roster = Roster(Rules(2))
    join(roster)
    assert kinds(take(roster)[0]) == ["joined"]
    join(roster)
    told = take(roster)
    first, second = told[0][-1].formed, told[1][-1].formed
    assert (first.generation, first.step, first.rank, second.rank) == (1, 0, 0, 1)
    assert first.has_state and not second.has_state and second.source == 0
    assert [member.number for member in first.members] == [0, 1]
    roster.ready(0, 1, 0.0)
    assert not take(roster)
    roster.ready(1, 1, 0.0)
    assert {number: kinds(messages) for number, messages in take(roster).items()} == {0: ["go"], 1: ["go"]}


def test_the_member_with_the_latest_checkpoint_has_the_state():
    roster = Roster(Rules(3))
    for step in (0, 40, 40):
        join(roster, step=step)
    formed = take(roster)[2][-1].formed
    assert (formed.step, formed.source, formed.has_state) == (40, 1, False)


def test_a_step_counts_when_all_have_computed_it_and_not_before():
    roster = running()
    vote(roster, 0, 2)
    assert not take(roster) and roster.step == 0
    vote(roster, 1)
    told = take(roster)
    assert all(told[number] == [pb.KeeperMessage(committed=pb.Committed(generation=1, step=0))] for number in range(3))
    assert roster.step == 1


def test_survivors_repeat_the_step_that_was_under_way():
    roster = running()
    vote(roster, 0, 1)
    roster.lost(1, "died", 1.0)  # though it had voted
    told = take(roster)
    assert set(told) == {0, 2}
    formed = told[2][-1].formed
    assert (formed.generation, formed.step, formed.rank, formed.has_state) == (2, 0, 1, True)
    assert "member 1" in formed.why and "died" in formed.why
    roster.vote(0, 1, 0, b"", 1.0)  # of the old generation: says nothing
    begin(roster)
    take(roster)
    vote(roster, 0, 2)
    assert roster.step == 1


def test_a_step_that_counts_stays_so_if_a_member_dies_right_after():
    roster = running()
    vote(roster, 0, 1, 2)
    roster.lost(1, "died", 1.0)
    assert kinds(take(roster)[0]) == ["committed", "formed"]  # in this order
    assert roster.step == 1


def test_a_newcomer_waits_for_the_step_and_gets_the_state():
    roster = running(2)
    number = join(roster)
    assert kinds(take(roster)[number]) == ["joined"]
    vote(roster, 0, 1)
    told = take(roster)
    assert kinds(told[0]) == ["committed", "formed"] and kinds(told[number]) == ["formed"]
    formed = told[number][0].formed
    assert (formed.step, formed.rank, formed.source, formed.has_state) == (1, 2, 0, False)


def test_a_newcomer_also_comes_in_when_a_member_is_lost():
    roster = running(2)
    number = join(roster)
    roster.lost(0, "died", 0.0)
    assert roster.current == [1, number]
    assert take(roster)[number][-1].formed.source == 0  # member 1 has the state


def test_until_a_step_counts_any_member_may_begin():
    """The first source dies before anybody else has its state."""
    roster = Roster(Rules(3))
    for step in (40, 0, 40):
        join(roster, step=step)
    take(roster)
    roster.lost(0, "died", 0.0)
    formed = take(roster)[1][-1].formed
    assert (formed.step, formed.source) == (40, 1) and roster.current == [1, 2]


def test_the_state_is_never_begun_anew():
    """If all members that had it are gone, the newcomer must not go on from its own first state."""
    roster = running(2)
    vote(roster, 0, 1)
    number = join(roster)
    vote(roster, 0, 1)  # step 1; forms generation 2 with the newcomer
    roster.lost(0, "died", 0.0)
    roster.lost(1, "died", 0.0)
    assert roster.phase is Phase.FAILED
    assert isinstance(roster.error, WorkerLostError) and "all members that had the state of step 2" in str(roster.error)
    assert kinds(take(roster)[number])[-1] == "ended"


def test_too_few_members_wait_for_others():
    roster = running(3, least=2, patience=10.0)
    roster.lost(0, "died", 5.0)
    begin(roster, 5.0)
    take(roster)
    roster.lost(1, "died", 6.0)
    assert roster.phase is Phase.GATHERING and kinds(take(roster)[2]) == ["stopped"]
    number = join(roster, now=7.0)
    assert roster.current == [2, number] and roster.phase is Phase.FORMING
    roster.lost(number, "died", 8.0)
    for member in roster.members:
        roster.heard(member, 18.0)
    roster.tick(17.9)
    assert roster.phase is Phase.GATHERING
    roster.tick(18.1)
    assert isinstance(roster.error, NeverJoinedError) and "1 member is left, at least 2 are needed" in str(roster.error)


def test_a_team_that_has_begun_ends_when_its_last_member_dies_while_it_waits_for_others():
    roster = running(2, least=2, patience=5.0)
    roster.lost(0, "died", 1.0)
    assert roster.phase is Phase.GATHERING
    roster.lost(1, "fell silent", 2.0)
    assert isinstance(roster.error, WorkerLostError)
    assert "no member is left (member 1" in str(roster.error) and "fell silent" in str(roster.error)


def test_a_team_that_has_not_begun_still_does_after_all_have_gone():
    roster = Roster(Rules(2, 2, patience=5.0))
    roster.lost(join(roster), "died", 1.0)
    roster.tick(100.0)
    assert roster.phase is Phase.GATHERING and roster.error is None
    for _ in range(2):
        join(roster, now=100.0)
    assert roster.phase is Phase.FORMING


@pytest.mark.parametrize("came, error", [(1, True), (2, False)])
def test_a_team_begins_with_fewer_when_patience_ends(came, error):
    roster = Roster(Rules(3, 2, patience=10.0))
    for _ in range(came):
        join(roster)
    roster.tick(10.1)
    assert (roster.error is not None) == error
    if error:
        assert "1 of 3 members came within 10 s" in str(roster.error)
    else:
        assert roster.phase is Phase.FORMING


def test_when_a_sum_fails_and_nobody_is_lost_the_same_members_try_again():
    roster = running(2)
    for attempt in range(MOST_RETRIES + 1):
        roster.failed(0, roster.generation, CollectiveTimeoutError("late"), 1.0)
        told = take(roster)
        assert kinds(told[1]) == ["stopped"] and not told[0]
        roster.failed(1, roster.generation, WorkerLostError("stopped"), 1.0)
        assert roster.generation == min(attempt + 2, MOST_RETRIES + 1)
        begin(roster)
        take(roster)
    assert isinstance(roster.error, CollectiveTimeoutError) and f"failed {MOST_RETRIES + 1} times" in str(roster.error)


def test_a_member_that_does_not_stop_is_left_behind():
    roster = running(3)
    roster.failed(0, 1, CollectiveTimeoutError("late"), 1.0)
    roster.failed(1, 1, WorkerLostError("stopped"), 1.0)
    roster.tick(1.0 + GRACE - 0.1)
    assert roster.generation == 1
    take(roster)
    roster.tick(1.0 + GRACE + 0.1)
    told = take(roster)
    assert kinds(told[2]) == ["ended"] and told[2][0].ended.code == "WORKER_LOST"
    assert roster.current == [0, 1] and roster.generation == 2


def test_a_member_that_never_votes_is_left_behind():
    roster = running(2, timeout=9.0)
    vote(roster, 0, now=1.0)
    roster.tick(9.9)
    assert roster.generation == 1
    roster.tick(10.1)
    assert roster.current == [0]
    assert "did not compute step 0 within 9 s" in take(roster)[1][-1].ended.message


def test_a_member_that_never_gets_ready_is_left_behind():
    roster = Roster(Rules(2, timeout=9.0))
    join(roster)
    join(roster)
    roster.ready(0, 1, 0.0)
    roster.tick(9.1)
    assert roster.current == [0] and "was not ready within 9 s" in take(roster)[1][-1].ended.message


def test_silent_members_are_lost_together():
    roster = running(3, heartbeat_timeout=5.0)
    roster.heard(1, 3.0)
    roster.tick(5.1)
    assert roster.current == [1] and roster.generation == 2
    assert "silent for more than 5 s" in take(roster)[0][-1].ended.message


def test_a_newcomer_that_runs_another_program_goes_alone():
    roster = running(2)
    vote(roster, 0, 1)
    number = join(roster)
    vote(roster, 0, 1)
    begin(roster)
    take(roster)
    for member in (0, number, 1):
        roster.failed(member, roster.generation, MismatchError("other things"), 0.0)
    told = take(roster)
    assert kinds(told[number])[-1] == "ended" and told[number][-1].ended.code == "MISMATCH"
    assert roster.current == [0, 1] and roster.phase is Phase.FORMING


@pytest.mark.parametrize("times_out", [False, True])
def test_a_newcomer_that_sums_less_than_the_others_goes_alone(times_out):
    """The others wait for a sum that it does not make, while it has computed the step."""
    roster = running(2, timeout=9.0)
    number = join(roster)
    vote(roster, 0, 1)
    begin(roster)
    take(roster)
    vote(roster, number, now=1.0)
    if times_out:
        for member in (0, 1):
            roster.failed(member, roster.generation, CollectiveTimeoutError("late"), 9.5)
    else:
        roster.tick(9.9)
        assert roster.current == [0, 1, number]
        roster.tick(10.1)
    ended = take(roster)[number][-1].ended
    assert ended.code == "MISMATCH" and "it has computed step 1, and they wait for its sums" in ended.message
    assert roster.current == [0, 1] and roster.phase is Phase.FORMING


def test_members_that_disagree_from_the_start_all_end():
    roster = running(2)
    for member in (0, 1):
        roster.failed(member, 1, MismatchError("other things"), 0.0)
    told = take(roster)
    assert [told[member][-1].ended.code for member in (0, 1)] == ["MISMATCH", "MISMATCH"]


def test_different_states_end_the_team():
    roster = running(3)
    for number, digest in enumerate((b"a", b"b", b"a")):
        roster.vote(number, 1, 0, digest, 0.0)
    assert isinstance(roster.error, MismatchError) and roster.step == 0
    assert "members 0, 2 and 1 differ" in str(roster.error)


def test_a_vote_for_another_step_costs_the_membership():
    roster = running(2)
    roster.vote(0, 1, 5, b"", 0.0)
    assert roster.current == [1]


def test_the_team_finishes():
    roster = running(2, until=1)
    waiting = join(roster, until=1)
    vote(roster, 0, 1)
    told = take(roster)
    assert kinds(told[0]) == ["committed"] and told[waiting][-1].ended.code == "JOB_REJECTED"
    assert roster.phase is Phase.FINISHED and roster.error is None
    roster.leave(0, None, 0.0)
    roster.lost(1, "died", 0.0)
    assert roster.phase is Phase.FINISHED and not take(roster)
    with pytest.raises(JobRejectedError, match="has finished its steps"):
        join(roster, until=1)


def test_a_team_without_an_end_finishes_when_all_have_left():
    roster = running(2)
    roster.leave(0, None, 0.0)
    assert roster.current == [1]
    roster.leave(1, None, 0.0)
    assert roster.phase is Phase.FINISHED


@pytest.mark.parametrize("theirs", [{"state": "2 arrays"}, {}, {"state": "1 array", "extra": "x"}])
def test_a_member_with_other_terms_is_refused_and_changes_nothing(theirs):
    roster = Roster(Rules(2))
    join(roster, state="1 array")
    with pytest.raises(MismatchError, match="the team has"):
        join(roster, **theirs)
    with pytest.raises(MismatchError, match="until"):
        join(roster, until=5, state="1 array")
    assert len(roster.members) == 1


def test_malformed_and_superfluous_members_are_refused(monkeypatch):
    roster = Roster(Rules(1))
    with pytest.raises(InvalidArgumentError, match="host has more than"):
        roster.join(pb.Join(host="h" * 300), 0.0)
    with pytest.raises(InvalidArgumentError, match="term"):
        join(roster, state="x" * 1001)
    monkeypatch.setattr(roster_module, "MAX_WORKERS", 1)
    join(roster)
    with pytest.raises(TooManyWorkersError):
        join(roster)


@pytest.mark.parametrize("first, least", [(0, 0), (2, 3), (2, 0), (1025, 1)])
def test_rules_that_cannot_be_kept(first, least):
    with pytest.raises(InvalidArgumentError):
        Rules(first, least)


# ---- random histories


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
