"""Elastic teams of real processes: members die, hang and come, and the others go on to the bits of a replay."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import numpy as np
import pytest
from elastic_members import SIZE, UNTIL, Kind, Member, replay

from jaxina.elastic.keeper import Keeper
from jaxina.elastic.membership import Rules
from jaxina.elastic.roster import Roster
from jaxina.errors import MismatchError, SwitchUnreachableError, WorkerLostError

SOON = 5.0  # seconds, within which survivors go on


@pytest.fixture
def keeper(request: pytest.FixtureRequest) -> Iterator[Keeper]:
    rules = Rules(**{"first": 3, "least": 2, "heartbeat_timeout": 20.0, **getattr(request, "param", {})})
    with Keeper(Roster(rules), "127.0.0.1:0") as running:
        yield running


@pytest.fixture
def members(keeper: Keeper) -> Iterator[list[Member]]:
    """Members that are killed at the test's end."""
    started: list[Member] = []
    yield started
    for member in started:
        member.process.kill()


def start(keeper: Keeper, members: list[Member], count: int, kind: Kind | None = None) -> list[Member]:
    new = [Member(keeper.address, kind) for _ in range(count)]
    members += new
    return new


def check_equal(ends: list[Member]) -> list[int]:
    """All members end with the state of a replay. Returns the sizes of the steps."""
    sizes: dict[int, int] = {}
    for member in ends:
        for step, size in member.sizes.items():
            assert sizes.setdefault(step, size) == size, f"members disagree who computed step {step}"
    assert sorted(sizes) == list(range(UNTIL))
    expected = replay([sizes[step] for step in range(UNTIL)])
    for member in ends:
        assert isinstance(member.end, np.ndarray), member.end
        np.testing.assert_array_equal(member.end.view(np.uint32), expected.view(np.uint32))
    return [sizes[step] for step in range(UNTIL)]


@pytest.mark.parametrize("aggregator", ["embedded", "direct"])
def test_survivors_go_on_and_a_replacement_comes_in(keeper, members, aggregator):
    kind = Kind(settings={"aggregator": aggregator})
    team = start(keeper, members, 3, kind)
    team[0].wait_for(8)
    killed = time.monotonic()
    os.kill(team[1].process.pid, signal.SIGKILL)
    last = max(team[0].sizes)
    team[0].wait_for(last + 2)  # at most one more step counted with the dead member
    assert team[0].when[last + 2] - killed < SOON
    assert team[0].sizes[last + 2] == 2
    (replacement,) = start(keeper, members, 1, kind)
    for member in (team[0], team[2], replacement):
        member.wait()
    sizes = check_equal([team[0], team[2], replacement])
    assert sizes[0] == 3 and 2 in sizes and sizes[-1] == 3
    assert min(replacement.sizes) > last


@pytest.mark.parametrize("keeper", [{"heartbeat_timeout": 1.5}], indirect=True)
def test_a_stopped_member_is_left_behind_and_learns_of_it(keeper, members):
    team = start(keeper, members, 3)
    team[0].wait_for(5)
    os.kill(team[2].process.pid, signal.SIGSTOP)
    for member in team[:2]:
        member.wait()
    assert check_equal(team[:2])[-1] == 2
    os.kill(team[2].process.pid, signal.SIGCONT)
    assert isinstance(team[2].wait(), (WorkerLostError, SwitchUnreachableError))


def test_a_member_that_hangs_in_a_step_is_left_behind(keeper, members):
    patience = {"timeout": 5.0}
    team = start(keeper, members, 2, Kind(settings=patience))
    (hanging,) = start(keeper, members, 1, Kind(hangs_at=5, settings=patience))
    for member in team:
        member.wait()
    sizes = check_equal(team)
    assert sizes[4:6] == [3, 2]
    hanging.wait_for(4)
    assert max(hanging.sizes) == 4


def test_a_newcomer_with_another_program_costs_nobody_else(keeper, members):
    team = start(keeper, members, 3)
    team[0].wait_for(3)
    (other,) = start(keeper, members, 1, Kind(extra=True))
    error = other.wait()
    assert isinstance(error, MismatchError) and "does not run what the others run" in error.message
    for member in team:
        member.wait()
    assert set(check_equal(team)) == {3}


def test_a_newcomer_with_another_state_is_refused(keeper, members):
    team = start(keeper, members, 3)
    team[0].wait_for(3)
    (other,) = start(keeper, members, 1, Kind(size=SIZE + 1))
    error = other.wait()
    assert isinstance(error, MismatchError) and "has 1 arrays of 1001 numbers" in error.message
    for member in team:
        member.wait()
    assert set(check_equal(team)) == {3}


def test_states_that_drift_apart_are_found(keeper, members):
    kind = {"settings": {"check_every": 10}}
    team = start(keeper, members, 2, Kind(**kind)) + start(keeper, members, 1, Kind(drifts=True, **kind))
    for member in team:
        error = member.wait()
        assert isinstance(error, MismatchError) and "after step 9 the members have different states" in error.message
        assert max(member.sizes) == 8  # the step that was compared does not count


def test_the_keeper_ends(keeper, members):
    team = start(keeper, members, 3)
    team[0].wait_for(3)
    keeper.stop()
    for member in team:
        error = member.wait()
        assert isinstance(error, SwitchUnreachableError) and "the keeper at" in error.message
