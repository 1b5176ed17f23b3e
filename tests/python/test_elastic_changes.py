"""Many changes of membership in a short time. The members are threads with real connections, but without an engine.

A step needs no sum here: the new state follows from the old one, the step and the number of members. It shows whether
two members ever have different states, also when generations end while they form.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from typing import Any

import numpy as np
import pytest

import jaxina.elastic
from jaxina.elastic import attendance as attendance_module
from jaxina.elastic import member as member_module
from jaxina.elastic.keeper import Keeper
from jaxina.elastic.membership import Rules
from jaxina.elastic.roster import Roster
from jaxina.errors import CollectiveTimeoutError, JaxinaError, MismatchError

LASTS = 4.0  # seconds, and longer until there were enough changes
PATIENCE = 30.0  # seconds, for a busy machine
ENOUGH = 20  # changes: with fewer the test shows little
MEMBERS = 3


class Attendance(attendance_module.Attendance):
    """An attendance whose connection can be cut off."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        made.value = self

    def cut_off(self) -> None:
        self._stream.cancel()


made = threading.local()


def next_state(state: np.ndarray, step: int, size: int) -> np.ndarray:
    return (state * np.int64(6364136223846793005) + step * 31 + size).astype(np.int64)


class Member:
    def __init__(self, keeper: str, seed: int, log: dict[int, tuple[int, int]], wrong: list[str]):
        self.rng = random.Random(seed)
        self.keeper, self.log, self.wrong = keeper, log, wrong
        self.attendance: Attendance | None = None
        self.first_seen = -1
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def step(self, state: np.ndarray, turn: Any) -> tuple[np.ndarray, None]:
        self.attendance = made.value
        time.sleep(self.rng.uniform(0, 0.004))
        return next_state(state, turn.step, turn.size), None

    def run(self) -> None:
        own = np.full(4, self.rng.getrandbits(40), np.int64)  # useless, except in the first member of all
        last = None
        try:
            for done in jaxina.elastic.steps(self.step, own, keeper=self.keeper, timeout=20, check_every=1):
                if last is not None and done.step != last + 1:
                    self.wrong.append(f"step {done.step} after {last}")
                last = done.step
                said = done.size, int(done.state[0])
                if self.log.setdefault(done.step, said) != said:
                    self.wrong.append(f"step {done.step}: {said}, not {self.log[done.step]}")
        except JaxinaError:
            pass


@pytest.fixture(autouse=True)
def without_engine(monkeypatch):
    monkeypatch.setattr(member_module, "Attendance", Attendance)
    monkeypatch.setattr(member_module, "OpenEngine", lambda *args: contextlib.nullcontext())
    monkeypatch.setattr(member_module.runs, "attempt", lambda *args: contextlib.nullcontext())


@pytest.mark.parametrize("seed", range(3))
def test_members_never_differ_however_fast_they_change(seed):
    rng, log, wrong = random.Random(seed), {}, []
    with Keeper(Roster(Rules(MEMBERS, timeout=20.0)), "127.0.0.1:0") as keeper:
        members = [Member(keeper.address, rng.getrandbits(32), log, wrong) for _ in range(MEMBERS)]
        began, changes = time.monotonic(), 0
        while time.monotonic() < began + (LASTS if changes > ENOUGH else PATIENCE):
            time.sleep(rng.uniform(0, 0.03))
            taking_part = [member for member in members if member.attendance is not None and member.thread.is_alive()]
            if len(taking_part) > 1 and rng.random() < 0.5:
                victim = rng.choice(taking_part)
                members.remove(victim)
                victim.attendance.cut_off()
                changes += 1
            elif len(members) < 2 * MEMBERS:
                members.append(Member(keeper.address, rng.getrandbits(32), log, wrong))
                changes += 1
        assert keeper.error is None
        before = max(log)
        deadline = time.monotonic() + PATIENCE
        while max(log) < before + 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert max(log) >= before + 3, "the team stands still"
        assert changes > ENOUGH
    assert not wrong
    sizes = [log[step][0] for step in range(len(log))]
    assert len(set(sizes)) > 1
    state = None
    for step, size in enumerate(sizes):  # each state follows from the one before
        if state is not None:
            state = next_state(state, step, size)
            assert int(state[0]) == log[step][1], f"step {step} began from another state"
        state = np.full(4, log[step][1], np.int64)


def test_a_member_between_two_steps_stops_with_the_others_and_repeats_with_them():
    """A sum of the other one has failed meanwhile, and nobody is lost."""
    between, failed = threading.Event(), threading.Event()
    sizes: dict[str, list[int]] = {"fails": [], "pauses": []}

    def take_part(name: str, keeper: str) -> None:
        def step(state: np.ndarray, turn: Any) -> tuple[np.ndarray, None]:
            if (name, turn.step) == ("fails", 1) and not failed.is_set():
                assert between.wait(PATIENCE)
                failed.set()
                raise CollectiveTimeoutError("a sum took too long")
            return state + 1, None

        for done in jaxina.elastic.steps(step, np.zeros(1), keeper=keeper, until=3, timeout=20):
            sizes[name].append(done.size)
            if (name, done.step) == ("pauses", 0):
                between.set()
                assert made.value.is_over_within(done.generation, PATIENCE)

    with Keeper(Roster(Rules(2, 2, patience=0.1)), "127.0.0.1:0") as keeper:
        members = [threading.Thread(target=take_part, args=(name, keeper.address), daemon=True) for name in sizes]
        for member in members:
            member.start()
        for member in members:
            member.join(PATIENCE)
    assert sizes == {"fails": [2, 2, 2], "pauses": [2, 2, 2]}


def test_a_function_that_changes_its_state_in_place_begins_a_repetition_from_the_old_one():
    failed = threading.Event()

    def step(state: dict[str, Any], turn: Any) -> tuple[dict[str, Any], None]:
        state["array"] += 1
        state["number"] = state["number"] + 1
        if turn.step == 1 and not failed.is_set():
            failed.set()
            raise CollectiveTimeoutError("a sum took too long")
        return state, None

    with Keeper(Roster(Rules(1)), "127.0.0.1:0") as keeper:
        first = {"array": np.zeros(2), "number": 0}
        for done in jaxina.elastic.steps(step, first, keeper=keeper.address, until=3, timeout=20):
            assert (done.state["array"].tolist(), done.state["number"]) == ([done.step + 1] * 2, done.step + 1)
    assert failed.is_set() and done.step == 2


def test_a_member_that_would_compare_its_state_after_other_steps_is_refused():
    """Else no two digests would ever be of the same step, and states that differ would not be found."""
    refused: list[str] = []

    def take_part(check_every: int) -> None:
        def step(state: np.ndarray, turn: Any) -> tuple[np.ndarray, None]:
            return state + 1, None

        try:
            list(jaxina.elastic.steps(step, np.zeros(1), keeper=keeper.address, until=3, check_every=check_every))
        except MismatchError as error:
            refused.append(error.message)

    with Keeper(Roster(Rules(2, patience=1.0)), "127.0.0.1:0") as keeper:
        members = [threading.Thread(target=take_part, args=(every,), daemon=True) for every in (10, 7)]
        for member in members:
            member.start()
        for member in members:
            member.join(PATIENCE)
    assert len(refused) == 1 and "the team has check_every=" in refused[0]
