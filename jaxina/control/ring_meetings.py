"""Where the workers of a ring learn of their neighbours' queue pairs: each waits until all have told theirs."""

from __future__ import annotations

import asyncio
import dataclasses
import logging

from jaxina.control.data_plane import DataPlane, QueuePairs, RingPlane
from jaxina.errors import InvalidArgumentError, JaxinaError, JobRejectedError, SystemCallError

_log = logging.getLogger(__name__)


class _Meeting:
    def __init__(self) -> None:
        self.ends: dict[int, QueuePairs] = {}
        self.connected: asyncio.Future[list[QueuePairs]] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[None] | None = None  # connects

    def fail(self, error: JaxinaError) -> None:
        if not self.connected.done():
            self.connected.set_exception(error)
            self.connected.exception()  # it is no fault if nobody waits


class RingMeetings:
    """The meetings of all jobs that are rings. They belong to one asyncio loop.

    Args:
      data_plane: what stands between the workers, or in one of them.
    """

    def __init__(self, data_plane: DataPlane):
        self._data_plane = data_plane
        self._meetings: dict[int, _Meeting] = {}

    async def meet(self, job: int, workers: int, rank: int, end: QueuePairs) -> tuple[QueuePairs, QueuePairs]:
        """Waits until all workers of a job have come.

        Args:
          job: the job.
          workers: how many workers it has.
          rank: the worker that comes.
          end: its end.

        Returns:
          The ends of the next and of the previous worker, with the MTU of all.

        Raises:
          InvalidArgumentError: this data plane has no rings, or not this one.
          JobRejectedError: the worker has come before, another ring has such a connection, or all workers have left.
          JaxinaError: the error that the job ended with meanwhile.
        """
        if not isinstance(self._data_plane, RingPlane):
            raise InvalidArgumentError(
                "this switch is not on the way between workers: start it with --transparent and its interfaces, leave "
                "JAXINA_SWITCH out so that the workers add, or use aggregator='udp'"
            )
        meeting = self._meetings.get(job)
        if meeting is None:
            meeting = self._meetings[job] = _Meeting()
        if rank in meeting.ends:
            raise JobRejectedError(f"worker {rank} of job {job} has told its queue pairs before: start the job again")
        meeting.ends[rank] = end
        if len(meeting.ends) == workers:
            meeting.task = asyncio.create_task(self._connect(self._data_plane, job, meeting))
        ends = await asyncio.shield(meeting.connected)
        return ends[(rank + 1) % workers], ends[rank - 1]

    async def _connect(self, plane: RingPlane, job: int, meeting: _Meeting) -> None:
        least = min(end.mtu for end in meeting.ends.values())
        ends = [dataclasses.replace(end, mtu=least) for _, end in sorted(meeting.ends.items())]
        try:
            await asyncio.to_thread(plane.connect_ring, job, ends)
        except JaxinaError as error:
            meeting.fail(error)
        except Exception as error:
            _log.exception("job %d: the ring was not connected", job)
            meeting.fail(SystemCallError(f"the ring of job {job} was not connected: {error!r}"))
        if self._meetings.get(job) is not meeting:  # the job was removed before its ring, or a part of it, was there
            self._data_plane.remove_job(job)
        elif not meeting.connected.done():
            meeting.connected.set_result(ends)

    def end(self, job: int, error: JaxinaError) -> None:
        """The job has ended: so do the waits of its workers."""
        if job in self._meetings:
            self._meetings[job].fail(error)

    def forget(self, job: int) -> None:
        """The job is gone. Whoever still waits for its ring waits in vain: all workers may have left in order."""
        self.end(job, JobRejectedError(f"job {job} has ended: no worker is joined to it any more"))
        self._meetings.pop(job, None)
