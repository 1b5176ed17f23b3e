"""The membership state machine. Tests pass it the time as a number."""

import itertools

import pytest

from jaxina._native import JobShape
from jaxina.control.job_records import Aborted, Left, Ready, Removed
from jaxina.control.job_spec import JobSpec
from jaxina.control.membership import Membership
from jaxina.errors import (
    InvalidArgumentError,
    JobRejectedError,
    RankTakenError,
    TooManyWorkersError,
    WorkerLostError,
)

HERE = "10.0.0.1"


def spec(workers=2, devices=None, slots=64, join_timeout=10.0, heartbeat_timeout=5.0):
    devices = workers if devices is None else devices
    shape = JobShape(devices=devices, workers=workers, slots=slots, block_size=256, blocks_per_chunk=1)
    return JobSpec(shape, join_timeout, heartbeat_timeout)


def job_of(membership, address=HERE, now=0.0, **options):
    return membership.create(spec(**options), address, now)


def join(membership, job, *ranks, now=0.0, secret=None):
    secret = job.secret if secret is None else secret
    return membership.join(job.id, secret, ranks, host=f"host{ranks[0]}", pid=100 + ranks[0], now=now)


def test_ready_when_the_last_worker_joins():
    membership = Membership()
    job = job_of(membership)
    assert join(membership, job, 0)[1] == []
    assert join(membership, job, 1)[1] == [Ready(job.id)]


def test_one_process_may_bring_several_workers():
    membership = Membership()
    assert join(membership, job := job_of(membership, workers=4), 0, 1)[1] == []
    assert join(membership, job, 2, 3)[1] == [Ready(job.id)]


def test_a_taken_rank_names_its_holder_and_changes_nothing():
    membership = Membership()
    job = job_of(membership, workers=3)
    holder, _ = join(membership, job, 1)
    with pytest.raises(RankTakenError, match=r"rank 1 .*taken by worker 1 \(host host1, pid 101\)"):
        join(membership, job, 0, 1)
    assert job.members == {1: holder}


def test_a_rank_beyond_the_job_is_too_many_workers():
    membership = Membership()
    job = job_of(membership)
    with pytest.raises(TooManyWorkersError, match="worker 2"):
        join(membership, job, 2)


def test_more_workers_than_the_format_allows():
    with pytest.raises(TooManyWorkersError, match="1024"):
        job_of(Membership(), workers=1025)


@pytest.mark.parametrize("bad", [dict(workers=0), dict(join_timeout=0.0), dict(heartbeat_timeout=-1.0)])
def test_a_job_needs_positive_sizes(bad):
    with pytest.raises(InvalidArgumentError):
        job_of(Membership(), **bad)


def test_a_wrong_secret_is_rejected_and_not_told():
    membership = Membership()
    job = job_of(membership)
    with pytest.raises(JobRejectedError) as caught:
        join(membership, job, 0, secret=job.secret ^ 1)
    assert str(job.secret) not in str(caught.value)
    assert str(job.secret) not in repr(job)
    assert job.members == {}


def test_an_unknown_job_is_rejected():
    with pytest.raises(JobRejectedError, match="no job 7"):
        Membership().join(7, 0, [0], "host", 1, now=0.0)


def test_a_broken_stream_aborts_the_job_and_names_the_dead():
    membership = Membership()
    job = job_of(membership)
    first, _ = join(membership, job, 0)
    second, _ = join(membership, job, 1)
    (effect,) = membership.lost(second, "died")
    assert isinstance(effect, Aborted) and isinstance(effect.error, WorkerLostError)
    assert "worker 1 (host host1, pid 101) died" in effect.error.message
    assert membership.lost(first, "died") == [Removed(job.id)], "one job is aborted once"
    assert membership.lost(first, "died") == [], "a loss that is reported twice counts once"


def test_leaving_in_order_is_not_a_death():
    membership = Membership()
    job = job_of(membership)
    first, _ = join(membership, job, 0)
    second, _ = join(membership, job, 1)
    assert membership.leave(first, "", "") == [Left(job.id, first)]
    assert membership.lost(first, "died") == []
    assert membership.leave(second, "", "") == [Left(job.id, second), Removed(job.id)]
    assert membership.jobs == {}


def test_leaving_with_an_error_ends_the_job_for_all():
    membership = Membership()
    job = job_of(membership)
    join(membership, job, 0)
    second, _ = join(membership, job, 1)
    (effect,) = membership.leave(second, "WORKER_LOST", "ended with ValueError: x")
    assert isinstance(effect.error, WorkerLostError) and "ValueError: x" in effect.error.message


def test_an_aborted_job_takes_nobody_in():
    membership = Membership()
    job = job_of(membership, workers=3)
    join(membership, job, 0)
    second, _ = join(membership, job, 1)
    membership.lost(second, "died")
    with pytest.raises(WorkerLostError):
        join(membership, job, 2)


def test_silence_beyond_the_heartbeat_timeout_is_a_death():
    membership = Membership()
    job = job_of(membership)
    first, _ = join(membership, job, 0, now=0.0)
    second, _ = join(membership, job, 1, now=0.0)
    membership.heartbeat(first, {"collectives": 1}, now=4.0)
    assert membership.expire(now=5.0) == []
    ((session, effects),) = membership.expire(now=5.1)
    assert session is second
    assert "silent for 5.1 s" in effects[0].error.message
    assert membership.expire(now=5.2) == []


def test_a_job_that_nobody_joins_is_dropped():
    membership = Membership()
    job = job_of(membership)
    assert membership.expire_unused(now=10.0) == []
    assert membership.expire_unused(now=10.1) == [Removed(job.id)]
    assert membership.jobs == {}


def test_incarnations_differ_in_id_and_secret():
    membership = Membership()
    jobs = [job_of(membership) for _ in range(50)]
    assert len({job.id for job in jobs}) == len({job.secret for job in jobs}) == 50
    assert all(other.id - one.id != 1 for one, other in itertools.pairwise(jobs)), "nobody can guess the next id"


def test_a_switch_that_is_draining_takes_no_new_jobs():
    membership = Membership()
    job = job_of(membership)
    membership.draining = True
    with pytest.raises(JobRejectedError, match="draining"):
        job_of(membership)
    assert list(membership.jobs) == [job.id]
    join(membership, job, 0)
    _, effects = join(membership, job, 1)  # those of the running job still join
    assert effects == [Ready(job.id)]
