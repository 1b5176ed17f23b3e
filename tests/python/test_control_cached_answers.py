"""The control service asks the data plane only rarely. The clock is a fake."""

import pytest
from control_fakes import FakeDataPlane

from jaxina._native import JobShape
from jaxina.control import limits
from jaxina.control.assisted_jobs import AssistedJobs
from jaxina.control.cached_answers import CachedAnswers
from jaxina.control.job_spec import JobSpec
from jaxina.control.membership import Membership
from jaxina.control.quota import MakingQuota
from jaxina.control.status_reply import StatusReplies
from jaxina.errors import SystemCallError


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class Question:
    """Counts how often it is asked; each answer takes `cost` seconds."""

    def __init__(self, clock, cost=0.0):
        self._clock = clock
        self._cost = cost
        self.asked = 0

    def __call__(self):
        self.asked += 1
        self._clock.now += self._cost
        return self.asked


@pytest.fixture
def clock():
    return Clock()


def test_a_question_is_asked_once_in_a_while(clock):
    answers, question = CachedAnswers(clock, every=0.5), Question(clock)
    assert [answers.ask("k", question) for _ in range(1000)] == [1] * 1000
    clock.now += 0.49
    assert answers.ask("k", question) == 1
    clock.now += 0.02
    assert answers.ask("k", question) == 2


def test_each_question_has_its_own_answer(clock):
    answers = CachedAnswers(clock, every=0.5)
    first, second = Question(clock), Question(clock)
    second.asked = 10
    assert (answers.ask("a", first), answers.ask("b", second)) == (1, 11)
    answers.forget("a")
    assert (answers.ask("a", first), answers.ask("b", second)) == (2, 11)


def test_costly_questions_take_a_tenth_of_the_time(clock):
    answers = CachedAnswers(clock, every=0.5)
    questions = [Question(clock, cost=0.15) for _ in range(40)]
    began = clock.now
    while clock.now < began + 100:
        for number, question in enumerate(questions):
            answers.ask(number, question, otherwise=0)
        clock.now += 0.05
    spent = 0.15 * sum(question.asked for question in questions)
    assert 5 < spent < 12


def test_what_must_wait_and_was_never_asked_is_answered_otherwise(clock):
    answers = CachedAnswers(clock, every=0.5)
    question = Question(clock, cost=2.0)
    assert answers.ask("a", question) == 1
    assert answers.ask("b", question, otherwise=0) == 0 and answers.asked_at("b") == float("-inf")
    clock.now += 10
    assert answers.ask("a", question) == 1, "the last answer stands while its time is not over"
    clock.now += 11
    assert answers.ask("b", question, otherwise=0) == 2 and answers.asked_at("b") == clock.now


def test_a_failure_is_not_asked_for_again_at_once(clock):
    answers, asked = CachedAnswers(clock, every=0.5), []

    def fail():
        asked.append(clock.now)
        clock.now += 5.0
        raise SystemCallError("a thread has not answered for 5 s")

    for _ in range(100):
        with pytest.raises(SystemCallError, match="for 5 s"):
            answers.ask("k", fail)
    assert len(asked) == 1


# ---- the questions of the control service


def create(membership, workers=2, address="10.0.0.1"):
    shape = JobShape(devices=workers, workers=workers, slots=8, block_size=256, blocks_per_chunk=1)
    job = membership.create(JobSpec(shape, 60.0, 60.0), address, 0.0)
    membership.join(job.id, job.secret, range(workers), "host", 1, 0.0)
    return job


@pytest.fixture
def plane():
    return FakeDataPlane()


NO_ASSISTED = AssistedJobs(FakeDataPlane(), MakingQuota())


def asking(membership, plane, clock):
    for job in membership.jobs:
        plane.jobs.setdefault(job, {})
    return StatusReplies(plane, clock, limits.ASK_EVERY, upstream="")


def test_a_flood_of_status_asks_the_data_plane_once(plane, clock):
    membership = Membership()
    jobs = [create(membership) for _ in range(3)]
    replies = asking(membership, plane, clock)
    for _ in range(1000):
        assert len(replies.status(membership.jobs.values(), NO_ASSISTED, draining=False).jobs) == 3
        replies.awaited(jobs[0])
    assert plane.asked == 1 and sorted(plane.asked_for) == sorted(job.id for job in jobs)
    clock.now += 0.5
    assert replies.status(membership.jobs.values(), NO_ASSISTED, draining=False).uptime_s == 0.5
    assert plane.asked == 2


def test_jobs_that_end_are_forgotten(plane, clock):
    membership = Membership()
    replies = asking(membership, plane, clock)
    for _ in range(50):
        job = create(membership)
        replies.awaited(job)
        replies.forget(job.id)
    assert not replies._answers._held


def test_costly_jobs_of_a_stranger_leave_the_data_plane_alone_and_hide_no_other(plane, clock):
    membership = Membership()
    strangers = [create(membership, address="10.0.0.66") for _ in range(20)]
    ours = create(membership)
    costly = {job.id for job in strangers}
    replies = asking(membership, plane, clock)
    cheap, spent = plane.missing, []

    def missing(job):
        if job in costly:
            clock.now += 0.15
            spent.append(0.15)
        cheap(job)
        return [1]

    plane.missing = missing
    began, seen = clock.now, False
    while clock.now < began + 60:
        reply = replies.status(membership.jobs.values(), NO_ASSISTED, draining=False)
        seen = seen or list(reply.jobs[-1].missing) == [1]
        clock.now += 0.1
    assert sum(spent) < 8 and seen and ours.id in plane.asked_for


def test_a_reply_is_bounded_and_lists_the_oldest_jobs_first(plane, clock):
    membership = Membership()
    for number in range(40):
        job = create(membership, workers=1000, address=f"10.0.0.{number}")
        (session,) = job.sessions
        statistics = {f"{name:x<32}": 2**63 for name in range(40)}
        membership.heartbeat(session, statistics, 0.0)
    reply = asking(membership, plane, clock).status(membership.jobs.values(), NO_ASSISTED, draining=False)
    assert [job.brief for job in reply.jobs] == [False, False] + [True] * 38
    assert [(job.present, job.absent) for job in reply.jobs] == [(1000, 0)] * 40
    assert [len(job.members) for job in reply.jobs] == [1000, 1000] + [0] * 38
    assert sum(bool(member.statistics) for member in reply.jobs[0].members) == 1, "one process"
    assert reply.ByteSize() < 200_000


def test_counters_of_the_whole_are_passed_on(plane, clock, monkeypatch):
    whole = {"rejected": {}, "jobs": {}, "socket_overflows": 7, "packets_unsent": 1}
    monkeypatch.setattr(plane, "statistics", lambda: whole)
    reply = asking(Membership(), plane, clock).status([], NO_ASSISTED, draining=False)
    assert dict(reply.counters) == {"socket_overflows": 7, "packets_unsent": 1}
