"""The decisions of an elastic team's keeper, without processes, sockets or a clock. Tests pass the time as a number."""

from __future__ import annotations

import pytest
from rosters import begin, join, kinds, running, take, vote

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
