"""Limits on what an address may have at a switch. Tests pass the time as a number."""

import contextlib

import pytest
from control_fakes import FakeDataPlane

from jaxina._native import MAX_WORKERS, MIN_BLOCK_SIZE, JobShape
from jaxina.control import control_pb2 as pb
from jaxina.control import limits
from jaxina.control.assisted_jobs import AssistedJobs
from jaxina.control.bucket import Bucket, Buckets
from jaxina.control.job_records import Removed
from jaxina.control.job_spec import JobSpec
from jaxina.control.membership import Membership
from jaxina.control.peer import address_of
from jaxina.control.quota import CallQuota, OpenLimit
from jaxina.errors import InvalidArgumentError, JobRejectedError, TooManyWorkersError

STRANGER, OTHER = "10.0.0.66", "10.0.0.1"


def spec(workers=2, devices=2, slots=1, block_size=256, blocks_per_chunk=1, join_timeout=86400.0):
    shape = JobShape(
        devices=devices,
        workers=workers,
        slots=slots,
        block_size=block_size,
        blocks_per_chunk=blocks_per_chunk,
    )
    return JobSpec(shape, join_timeout, 5.0)


def create(membership, address=STRANGER, now=0.0, joined=True, **shape):
    job = membership.create(spec(**shape), address, now)
    if joined:
        membership.join(job.id, job.secret, [0], "host", 1, now)
    return job


def hours(count):
    """Returns times that are so far apart that only the numbers of jobs are limited, not their rate."""
    return [3600.0 * hour for hour in range(count)]


def address(number):
    return f"10.0.{number // 256}.{number % 256}"


# ---- jobs


def test_an_address_has_so_many_jobs_and_others_go_on():
    membership = Membership()
    jobs = [create(membership, now=now) for now in hours(limits.JOBS_PER_ADDRESS)]
    with pytest.raises(JobRejectedError, match=f"{STRANGER} has 256 jobs.*jaxina.shutdown"):
        create(membership, now=1e9)
    create(membership, OTHER, now=1e9)
    (session,) = jobs[0].sessions
    membership.leave(session, "", "")
    create(membership, now=1e9)


def test_all_addresses_together_have_so_many_jobs(monkeypatch):
    monkeypatch.setattr(limits, "MAX_JOBS", 300)  # the real limit, 4096, would take long
    membership = Membership()
    for number, now in enumerate(hours(limits.MAX_JOBS)):
        create(membership, address(number), now)
    with pytest.raises(JobRejectedError, match="the switch serves 300 jobs"):
        create(membership, OTHER, now=1e9)


def test_an_address_has_few_jobs_that_nobody_joined():
    membership = Membership()
    for _ in range(limits.UNJOINED_PER_ADDRESS):
        first = create(membership, joined=False)
    with pytest.raises(JobRejectedError, match=f"{STRANGER} has 64 jobs that nobody.*in 30 s"):
        create(membership)
    create(membership, OTHER)
    membership.join(first.id, first.secret, [1], "host", 1, 0.0)
    create(membership, joined=False)


def test_all_addresses_together_have_few_jobs_that_nobody_joined():
    membership = Membership()
    for number in range(limits.MAX_UNJOINED):
        create(membership, address(number), joined=False)
    with pytest.raises(JobRejectedError, match="the switch has 1024 jobs that nobody"):
        create(membership, OTHER)


def test_a_job_that_nobody_joins_lives_shortly_whatever_it_asks_for():
    membership = Membership()
    job = create(membership, joined=False, join_timeout=86400.0)
    assert membership.expire_unused(now=limits.UNJOINED_LIFE) == []
    assert membership.expire_unused(now=limits.UNJOINED_LIFE + 0.1) == [Removed(job.id)]


def test_a_job_that_one_worker_joined_waits_for_the_others_as_long_as_they_want():
    membership = Membership()
    job = create(membership, workers=2)
    assert membership.expire_unused(now=80000.0) == []
    membership.join(job.id, job.secret, [1], "host", 1, 80000.0)


# ---- pools


def test_an_address_has_so_much_memory():
    membership = Membership()
    large = dict(block_size=256, blocks_per_chunk=63, slots=500)
    one = spec(**large).shape.pool_bytes
    assert one > 2 * 500 * 2 * 4 * 256 * 63  # words, and the sums of narrow words
    fit = limits.POOL_PER_ADDRESS // one
    for now in hours(fit):
        create(membership, now=now, **large)
    with pytest.raises(JobRejectedError, match=r"of the 192 MiB .*lower JAXINA_SLOTS"):
        create(membership, now=1e9, **large)
    create(membership, OTHER, now=1e9, **large)
    create(membership, now=1e9)


def test_small_slots_count_with_their_bookkeeping():
    tiny = spec(slots=65535, block_size=MIN_BLOCK_SIZE)
    words, seen = 2 * 4 * MIN_BLOCK_SIZE, 2 * MAX_WORKERS // 8  # bytes of both versions
    assert tiny.shape.pool_bytes > 65535 * (words + seen)


def test_jobs_made_and_given_up_in_a_loop_are_limited():
    """Creating a job is costly: the threads that move packets clear its pool. So the rate is limited."""
    membership = Membership()
    large = dict(block_size=256, blocks_per_chunk=63, slots=750)
    size = spec(**large).shape.pool_bytes

    def made_within(seconds):
        made = 0
        for tenth in range(10 * seconds):
            with contextlib.suppress(JobRejectedError):
                job = create(membership, now=tenth / 10, **large)
                made += size
                (session,) = job.sessions
                membership.leave(session, "", "")
        return made

    at_once, per_second = limits.MAKING_PER_ADDRESS
    assert 0 < made_within(60) <= at_once + 60 * per_second
    with pytest.raises(JobRejectedError, match=r"try again in .* s"):
        create(membership, now=60.0, **large)
    create(membership, OTHER, now=60.0, **large)


def test_all_addresses_together_make_so_much_at_once():
    membership = Membership()
    large = dict(block_size=256, blocks_per_chunk=63, slots=750)

    def make() -> None:
        for number in range(100):
            create(membership, address(number), **large)

    with pytest.raises(JobRejectedError, match="or by all callers: try again"):
        make()
    assert 0 < len(membership.jobs) * spec(**large).shape.pool_bytes <= limits.MAKING_IN_ALL[0]


def test_parts_of_jobs_count_as_jobs_that_are_made():
    """What a switch keeps for a job that it helps with is made and freed as a pool is."""
    plane, membership = FakeDataPlane(ports=[51001]), Membership()
    assisted = AssistedJobs(plane, membership.making)
    children = [pb.Child(workers=[worker]) for worker in range(1024)]
    combine = pb.Combine(children=children, upstream=[pb.DataAddress(host=OTHER, port=1)], ways=2047)
    shape = dict(workers=1024, devices=1024, slots=1, block_size=256, blocks_per_chunk=1)

    def help_with_jobs(count, asker, now):
        for job in range(count):
            with assisted.assist(pb.AssistRequest(job=job, combine=combine, **shape), asker, now):
                pass

    with pytest.raises(JobRejectedError, match=r"too many jobs.* in a short time.*try again in .* s"):
        help_with_jobs(20, STRANGER, 0.0)
    made = len(plane.removed)
    assert made == limits.MAKING_PER_ADDRESS[0] // (192 * limits.MIB)
    with pytest.raises(JobRejectedError, match="too many jobs"):
        create(membership, slots=500, blocks_per_chunk=63)
    help_with_jobs(1, OTHER, 0.0)
    help_with_jobs(1, STRANGER, 10.0)
    assert len(plane.removed) == made + 2


# ---- devices


@pytest.mark.parametrize(
    "workers,devices,error",
    [
        (2, 0, InvalidArgumentError),
        (2, 1, InvalidArgumentError),
        (2, 1025, TooManyWorkersError),
        (1025, 1025, TooManyWorkersError),
    ],
)
def test_a_job_has_at_least_a_device_per_worker(workers, devices, error):
    membership = Membership()
    with pytest.raises(error):
        create(membership, workers=workers, devices=devices)
    assert membership.jobs == {}
    assert create(membership, workers=2, devices=1024).spec.shape.devices == 1024


# ---- streams and calls


def test_an_open_limit_holds_per_address_and_in_all():
    limit = OpenLimit("streams", per_address=2, in_all=3)
    with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
        for _ in range(2):
            first.enter_context(limit.one_more(STRANGER))
        with pytest.raises(JobRejectedError, match=f"{STRANGER} has 2 streams"):
            first.enter_context(limit.one_more(STRANGER))
        second.enter_context(limit.one_more(OTHER))
        with pytest.raises(JobRejectedError, match="there are 3 streams"):
            second.enter_context(limit.one_more("10.0.0.2"))
        first.close()
        second.enter_context(limit.one_more(STRANGER))
    assert not limit._open and limit._total == 0, "nobody is remembered who is gone"


def test_calls_of_an_address_are_limited():
    quota = CallQuota()
    at_once, per_second = limits.CALLS_PER_ADDRESS
    for _ in range(at_once):
        quota.take(STRANGER, 0.0)
    with pytest.raises(JobRejectedError, match=r"200 calls a second come from 10\.0\.0\.66"):
        quota.take(STRANGER, 0.0)
    quota.take(OTHER, 0.0)
    for _ in range(per_second):
        quota.take(STRANGER, 1.0)
    with pytest.raises(JobRejectedError):
        quota.take(STRANGER, 1.0)


# ---- buckets


def test_a_bucket_gives_what_it_holds_and_gains_with_time():
    bucket = Bucket(most=10, per_second=2)
    assert bucket.take(10, 0.0) and not bucket.take(1, 0.0)
    assert bucket.wait(3, 0.0) == 1.5
    assert not bucket.take(3, 1.4) and bucket.take(3, 1.5)
    assert bucket.level(100.0) == 10, "no more than it can hold"
    assert bucket.take(25, 100.0), "what it can never hold, it gives when it is full"
    assert not bucket.take(1, 107.0) and bucket.take(1, 108.0)


def test_buckets_of_those_who_went_away_are_forgotten():
    buckets = Buckets(1, 1)
    for number in range(10_000):
        assert buckets.of(number, number / 100).take(1, number / 100)
    assert len(buckets) < 2000
    assert not buckets.of(9_999, 100.0).take(1, 100.0), "but not of those who have just been here"


# ---- addresses


@pytest.mark.parametrize(
    "peer,address",
    [
        ("ipv4:10.0.0.1:50000", "10.0.0.1"),
        ("ipv6:%5B::1%5D:50000", "::/64"),
        ("ipv6:[2001:db8:1:2:3:4:5:6]:5", "2001:db8:1:2::/64"),
        ("ipv6:%5B2001:db8:1:2::9%5D:5", "2001:db8:1:2::/64"),
        ("ipv6:%5Bfe80::1%25eth0%5D:5", "fe80::/64"),
        ("ipv6:%5B::ffff:10.0.0.1%5D:5", "10.0.0.1"),
        ("unix:/tmp/socket", "unix"),
        ("ipv4:nonsense", "ipv4"),
        ("", ""),
    ],
)
def test_the_address_of_a_peer(peer, address):
    assert address_of(peer) == address
