"""The watchdog's parts: who waits for whom, questions and answers in a store, and what a process tells."""

import functools
import math
import queue
import threading
import time

import pytest
from control_fakes import FakeStore, eventually

from jaxina import _hlo
from jaxina.watchdog.findings import find, text
from jaxina.watchdog.inquiry import Inquiry
from jaxina.watchdog.progress import Progress, Tokens, engine_progress
from jaxina.watchdog.stacks import stacks
from jaxina.watchdog.state import Stack, State, Wait
from jaxina.watchdog.watch import Watchdog

ALL = (0, 1, 2)


def wait(number, seconds=5.0, stream="all", members=ALL, what="psum f32[8] of jit_step", exact=True):
    return Wait(stream, members, number, what, seconds, exact)


def state(rank, entered, *waits, **more):
    return State(rank, f"host h{rank}, pid {rank}", entered, waits, **more)


def by_rank(*states):
    return {one.rank: one for one in states}


def test_who_has_not_entered_is_late():
    states = by_rank(
        state(0, {"all": 4}, wait(4, 7.0)),
        state(1, {"all": 3}, stacks=(Stack("main thread", ("train.py:8 in main: sleep()",)),)),
        state(2, {"all": 4}, wait(4, 6.0)),
    )
    found = find(wait(4), states)
    assert (found.late, found.waiting, found.circle) == ((1,), {0: 7.0, 2: 6.0}, False)
    said = text(found, states)
    assert said.splitlines() == [
        "rank 1 is late: ranks 0, 2 have waited 7.0 s in psum f32[8] of jit_step, number 4",
        "  rank 1 (host h1, pid 1) is in no collective",
        "    main thread:",
        "      train.py:8 in main: sleep()",
    ]


def test_the_blame_goes_on_to_who_waits_for_nobody():
    pair = functools.partial(wait, stream="pair", members=(1, 2))
    states = by_rank(
        state(0, {"all": 4}, wait(4)),
        state(1, {"all": 3, "pair": 9}, pair(9)),
        state(2, {"all": 3, "pair": 8}),
    )
    found = find(wait(4), states)
    assert found.late == (2,)
    assert found.wait.stream in ("all", "pair")


def test_a_circle_is_named_as_such():
    one = functools.partial(wait, stream="a", members=(0, 1), what="psum A")
    other = functools.partial(wait, stream="b", members=(0, 1), what="psum B")
    states = by_rank(state(0, {"a": 1}, one(1)), state(1, {"b": 1}, other(1)))
    found = find(one(1), states)
    assert found.circle and found.late == (0, 1)
    said = text(found, states)
    assert said.startswith("ranks 0, 1 wait for each other, for 5.0 s")
    assert "rank 0 (host h0, pid 0) is in psum A" in said and "rank 1 (host h1, pid 1) is in psum B" in said


def test_nobody_is_late_if_all_have_entered():
    states = by_rank(*(state(rank, {"all": 4}, wait(4)) for rank in ALL))
    found = find(wait(4), states)
    assert found.late == () and not found.circle
    assert "all of ranks 0, 1, 2 have entered psum f32[8]" in text(found, states)


def test_something_else_at_the_same_place_is_named():
    states = by_rank(
        state(0, {"all": 4}, wait(4)), state(1, {"all": 4}, wait(4, what="jit_eval")), state(2, {"all": 4}, wait(4))
    )
    assert "rank 1 is in something else: jit_eval" in text(find(wait(4), states), states)


@pytest.mark.parametrize(
    "third, ended, said",
    [
        (None, (), "rank 2 does not answer"),
        (None, (2,), "rank 2 has ended"),
        (state(2, {}, gone=True), (), "rank 2 has ended, or called jaxina.shutdown()"),
        (state(2, {}, compiling=12.3), (), "rank 2 (host h2, pid 2) has compiled a program for 12 s"),
    ],
)
def test_why_a_rank_has_not_come(third, ended, said):
    states = by_rank(*(state(rank, {"all": 4}, wait(4)) for rank in (0, 1)), *([third] if third else []))
    found = find(wait(4), states)
    assert found.late == (2,)
    assert said in text(found, states, ended)


def test_a_state_survives_its_way():
    one = state(1, {"all": 3}, wait(4, exact=False), compiling=1.5, stacks=(Stack("main thread", ("a", "b")),))
    assert State.from_text(one.to_text()) == one


def test_questions_are_asked_by_one_and_answered_by_all():
    store = FakeStore()
    parts = [Inquiry(store, "w", rank, 3, functools.partial(state, rank, {"all": rank})) for rank in ALL]
    stop = threading.Event()

    def answer(part):
        while not stop.wait(0.01):
            part.answer()

    threads = [threading.Thread(target=answer, args=(part,)) for part in parts[1:]]
    for thread in threads:
        thread.start()
    for _ in range(3):
        states = parts[0].ask(20)
        assert {rank: one.entered for rank, one in states.items()} == {rank: {"all": rank} for rank in ALL}
    stop.set()
    for thread in threads:
        thread.join()
    assert parts[1].ask(0.1).keys() == {1}  # nobody answers any more
    assert parts[2].ask(0.1) is None  # the question was asked by another meanwhile
    parts[2].leave()
    assert parts[0].answer()
    assert parts[0].ask(0.1)[2].gone


class World:
    """Watchdogs of processes that do nothing but what a test sets."""

    def __init__(self, processes, late_after, timeout):
        store = FakeStore()
        self.states = {rank: state(rank, {}) for rank in range(processes)}
        self.said = queue.Queue()
        self.asked = []
        self.dogs = [
            Watchdog(
                *(store, "w", rank, processes),
                late_after=late_after,
                timeout=timeout,
                state=functools.partial(self.state, rank),
                ended=set,
                tell=lambda message, rank=rank: self.said.put((rank, message)),
            )
            for rank in range(processes)
        ]

    def state(self, rank, with_stacks):
        one = self.states[rank]
        waits = tuple(
            Wait(w.stream, w.members, w.number, w.what, time.monotonic() - w.seconds, w.exact) for w in one.waits
        )
        return State(rank, one.place, one.entered, waits, one.compiling)

    def enter(self, rank, number, exact=True):
        self.states[rank] = state(rank, {"all": number}, wait(number, time.monotonic(), exact=exact))

    def leave(self, rank):
        self.states[rank] = state(rank, self.states[rank].entered)


@pytest.fixture
def world():
    """A function that starts the watchdogs of three processes."""
    started = []

    def start(late_after=0.3, timeout=60.0):
        started.append(World(3, late_after, timeout))
        return started[-1]

    yield start
    for one in started:
        for dog in one.dogs:
            dog.stop()


def test_a_late_rank_is_reported_once_and_again_when_the_time_has_doubled(world):
    here = world()
    here.enter(0, 1), here.enter(2, 1)
    began = time.monotonic()
    _, first = here.said.get(timeout=60)
    assert time.monotonic() - began >= 0.3
    assert first.startswith("rank 1 is late")
    _, second = here.said.get(timeout=60)
    assert time.monotonic() - began >= 0.6
    assert second.startswith("rank 1 is late")
    for rank in ALL:
        here.leave(rank)
    assert "goes on" in here.said.get(timeout=60)[1]


def test_nobody_is_reported_who_comes_in_time(world):
    here = world(late_after=0.5)
    for number in range(1, 21):
        here.enter(0, number), here.enter(2, number)
        time.sleep(0.02)
        here.enter(1, number)
        for rank in ALL:
            here.leave(rank)
    assert here.said.empty()


def test_a_rank_that_compiles_is_not_reported_before_the_timeout(world):
    here = world(timeout=1.0)
    here.states[1] = state(1, {}, compiling=0.1)
    began = time.monotonic()
    here.enter(0, 1), here.enter(2, 1)
    assert "rank 1" in here.said.get(timeout=60)[1]
    assert time.monotonic() - began >= 1.0


def test_a_program_that_all_have_entered_may_compute_until_the_timeout(world):
    here = world(timeout=1.0)
    began = time.monotonic()
    for rank in ALL:
        here.enter(rank, 1, exact=False)
    assert "all of ranks" in here.said.get(timeout=60)[1]
    assert time.monotonic() - began >= 1.0


def test_a_collective_that_all_have_entered_is_reported(world):
    here = world()
    for rank in ALL:
        here.enter(rank, 1)
    assert "all of ranks" in here.said.get(timeout=60)[1]


def test_infinity_is_never(world):
    here = world(late_after=math.inf)
    here.enter(0, 1)
    time.sleep(0.2)
    assert here.said.empty()


def test_runs_end_in_their_order():
    progress = Progress()
    tokens, gate = Tokens(progress), threading.Event()
    numbers = [progress.begin((0, 1), f"program {n}") for n in range(3)]
    assert [(one.number, one.what, one.exact) for one in progress.waits()] == [(1, "program 0", False)]
    tokens.end_after(numbers[0], lambda: None)
    tokens.end_after(numbers[1], gate.wait)
    assert eventually(lambda: [one.number for one in progress.waits()] == [2])
    gate.set()
    assert eventually(lambda: [one.number for one in progress.waits()] == [3])
    progress.end(numbers[2])
    assert progress.waits() == []
    assert list(progress.entered().values()) == [3]


def test_a_program_of_one_process_is_nothing_to_wait_for():
    progress = Progress()
    progress.begin((1,), "alone")
    assert progress.waits() == []


def test_compilations_are_noted_while_they_last():
    progress = Progress()
    assert progress.compiles_for() is None
    with progress.compiling():
        assert progress.compiles_for() >= 0
    assert progress.compiles_for() is None


def test_a_process_is_where_its_slowest_device_is():
    under_way = [
        ([0, 1, 4, 5], 0, 7, (6, 99, 3.0)),
        ([0, 1, 4, 5], 1, 5, None),
        ([0, 1], 0, 2, (2, 98, 9.0)),  # within the process
    ]
    entered, waits = engine_progress(
        under_way, lambda group: [d // 4 for d in group], lambda identity: f"sum {identity}"
    )
    assert entered == {"collectives of devices 0,1,4,5": 5}
    assert waits == [Wait("collectives of devices 0,1,4,5", (0, 1), 6, "sum 99", 3.0, True)]


def test_the_main_threads_stack_has_its_lines():
    (found,) = (one for one in stacks(("/nowhere/",)) if one.thread == "main thread")
    assert "test_the_main_threads_stack_has_its_lines" in "\n".join(found.lines)


HLO = """HloModule jit_step

FileNames
1 "/home/u/train.py"

FunctionNames
1 "step"

FileLocations
1 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=11 end_column=11}

StackFrames
1 {file_location_id=1 parent_frame_id=1}


%region (a: f32[], b: f32[]) -> f32[] {
  ROOT %add.0 = f32[] add(%a, %b), metadata={op_name="add" stack_frame_id=1}
}

ENTRY %main (p: f32[2,3]) -> (f32[2,3], f32[2]) {
  %all-reduce = (f32[2,3]{1,0}, f32[2]{0}) all-reduce(%p), to_apply=%region, metadata={op_name="psum" stack_frame_id=1}
}
"""


def test_a_collective_is_described_by_its_name_types_and_line():
    (found,) = _hlo.collectives(HLO, frozenset())
    assert str(found) == "psum f32[2,3], f32[2] (/home/u/train.py:7)"
