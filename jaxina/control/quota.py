"""How many jobs, pools, streams and calls of a switch one address may have, and all addresses together."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Collection, Iterator
from typing import Protocol

from jaxina.control import limits
from jaxina.control.bucket import Bucket, Buckets
from jaxina.errors import JobRejectedError

_OWN_SWITCH = "or use a switch of your own (`jaxina switch`)"


class HeldJob(Protocol):
    """A job as the quota sees it."""

    @property
    def address(self) -> str: ...

    @property
    def pool_bytes(self) -> int: ...

    @property
    def joined(self) -> bool:
        """Whether a worker has joined it."""
        ...


@dataclasses.dataclass
class _Held:
    """What an address has at the switch."""

    jobs: int = 0
    unjoined: int = 0
    pool_bytes: int = 0


class MakingQuota:
    """Limits how often jobs are made, and how large ones. Parts of jobs that were made elsewhere count as jobs."""

    def __init__(self) -> None:
        self._addresses = Buckets(*limits.MAKING_PER_ADDRESS)
        self._in_all = Bucket(*limits.MAKING_IN_ALL)

    def take(self, address: str, memory: int, now: float) -> None:
        """Counts a job of the address that is about to be made.

        Args:
          address: where the request comes from.
          memory: what the data plane needs for it, in bytes.
          now: the time, in any clock's seconds that never go back.

        Raises:
          JobRejectedError: the address, or all addresses together, have made too much.
        """
        cost = limits.JOB_COST + memory
        making = self._addresses.of(address, now)
        wait = max(making.wait(cost, now), self._in_all.wait(cost, now))
        if wait > 0:
            raise JobRejectedError(
                f"too many jobs, or too large ones, were made at this switch in a short time, by {address} alone or by "
                f"all callers: try again in {wait:.1f} s, {_OWN_SWITCH}"
            )
        making.spend(cost, now)
        self._in_all.spend(cost, now)


class JobQuota:
    """Decides whether an address may have one more job.

    Args:
      making: counts the jobs that are made.
    """

    def __init__(self, making: MakingQuota) -> None:
        self._making = making

    def admit(self, address: str, pool_bytes: int, jobs: Collection[HeldJob], now: float) -> None:
        """Counts one more job of the address.

        Args:
          address: where the request comes from.
          pool_bytes: size of the job's pool.
          jobs: the jobs that the switch has.
          now: the time, in any clock's seconds that never go back.

        Raises:
          JobRejectedError: a limit is reached. The message names it and says what to do.
        """
        mine = _Held()
        unjoined = 0
        for job in jobs:
            unjoined += not job.joined
            if job.address == address:
                mine.jobs += 1
                mine.unjoined += not job.joined
                mine.pool_bytes += job.pool_bytes
        self._check_numbers(address, mine, len(jobs), unjoined)
        if mine.pool_bytes + pool_bytes > limits.POOL_PER_ADDRESS:
            raise JobRejectedError(
                f"a pool of {_mib(pool_bytes)} MiB is too much: {address} has {_mib(mine.pool_bytes)} of the "
                f"{_mib(limits.POOL_PER_ADDRESS)} MiB that one address may have at this switch: lower JAXINA_SLOTS or "
                f"JAXINA_BLOCKS_PER_CHUNK, {_OWN_SWITCH}"
            )
        self._making.take(address, pool_bytes, now)

    @staticmethod
    def _check_numbers(address: str, mine: _Held, jobs: int, unjoined: int) -> None:
        if jobs >= limits.MAX_JOBS:
            raise JobRejectedError(
                f"the switch serves {limits.MAX_JOBS} jobs, the most it may: wait for one to end, {_OWN_SWITCH}"
            )
        if mine.jobs >= limits.JOBS_PER_ADDRESS:
            raise JobRejectedError(
                f"{address} has {limits.JOBS_PER_ADDRESS} jobs at this switch, the most for one "
                f"address: end some (jaxina.shutdown()), {_OWN_SWITCH}"
            )
        for held, most, whose in (
            (mine.unjoined, limits.UNJOINED_PER_ADDRESS, f"{address} has"),
            (unjoined, limits.MAX_UNJOINED, "the switch has"),
        ):
            if held >= most:
                raise JobRejectedError(
                    f"{whose} {most} jobs that nobody has joined, the most allowed: join them, or try again in "
                    f"{limits.UNJOINED_LIFE:g} s, when they are dropped"
                )


class ConnectQuota:
    """Limits how often queue pairs are connected."""

    def __init__(self) -> None:
        self._jobs: dict[int, Bucket] = {}
        self._in_all = Bucket(*limits.CONNECTS_IN_ALL)

    def take(self, job: int, workers: int, now: float) -> None:
        """Counts one connection of the job, which has so many workers.

        Raises:
          JobRejectedError: the job, or all jobs together, have connected too often.
        """
        bucket = self._jobs.get(job)
        if bucket is None:
            most = limits.CONNECTS_PER_WORKER * workers
            bucket = self._jobs[job] = Bucket(most, limits.CONNECTS_PER_JOB)
        wait = max(bucket.wait(1, now), self._in_all.wait(1, now))
        if wait > 0:
            raise JobRejectedError(
                f"queue pairs were connected too often, in job {job} or at the switch as a whole: try again in "
                f"{wait:.1f} s"
            )
        bucket.spend(1, now)
        self._in_all.spend(1, now)

    def forget(self, job: int) -> None:
        """Drops the count of a job that has ended."""
        self._jobs.pop(job, None)


class CallQuota:
    """Limits how often an address calls."""

    def __init__(self) -> None:
        self._calls = Buckets(*limits.CALLS_PER_ADDRESS)

    def take(self, address: str, now: float) -> None:
        """Counts one call of the address.

        Raises:
          JobRejectedError: it is one call too many.
        """
        if not self._calls.of(address, now).take(1, now):
            raise JobRejectedError(
                f"more than {limits.CALLS_PER_ADDRESS[1]} calls a second come from {address}: call less often"
            )


class OpenLimit:
    """Limits how many of something that strangers may open are open at once.

    Args:
      what: what is counted, for messages.
      per_address: the most for one address.
      in_all: the most for all addresses together.
    """

    def __init__(self, what: str, per_address: int, in_all: int):
        self._what = what
        self._per_address = per_address
        self._in_all = in_all
        self._open: collections.Counter[str] = collections.Counter()
        self._total = 0

    @contextlib.contextmanager
    def one_more(self, address: str) -> Iterator[None]:
        """Counts one more while the context lasts.

        Raises:
          JobRejectedError: that is one too many.
        """
        if self._open[address] >= self._per_address:
            raise JobRejectedError(
                f"{address} has {self._per_address} {self._what} here, the most for one address: end some"
            )
        if self._total >= self._in_all:
            raise JobRejectedError(
                f"there are {self._in_all} {self._what} here, the most that there may be: try again later"
            )
        self._open[address] += 1
        self._total += 1
        try:
            yield
        finally:
            self._total -= 1
            self._open[address] -= 1
            if not self._open[address]:
                del self._open[address]


def _mib(size: int) -> str:
    return f"{size / limits.MIB:,.0f}"
