"""The sessions of this process: its memberships in the jobs of its groups."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from jaxina.config import Configuration
from jaxina.control.client import JobGrant, SwitchClient
from jaxina.control.connector import Group
from jaxina.control.message_stream import LEAVE
from jaxina.control.rendezvous import Agreement
from jaxina.control.servers import WorkerServer
from jaxina.control.session import LEFT_GRACE, Session
from jaxina.errors import JaxinaError, NeverJoinedError, WorkerLostError

# Between two looks at whether a process has ended, while this one waits for the others to join.
_SLICE = 0.25  # seconds


class JobSessions:
    """Makes, joins and leaves jobs. Any thread may call it.

    Args:
      configuration: this process's.
      statistics: returns the engine's counters.
    """

    def __init__(self, configuration: Configuration, statistics: Callable[[], dict[str, int]]):
        self._configuration = configuration
        self._statistics = statistics
        self._sessions: dict[Group, Session] = {}
        self._lock = threading.Lock()

    def create_job(self, client: SwitchClient, devices: int, workers: int) -> JobGrant:
        """Has a switch, or a job's first process, make a job for workers that then join it.

        Raises:
          JaxinaError: as `SwitchClient.create_job`.
        """
        configuration = self._configuration
        return client.create_job(
            devices=devices,
            workers=workers,
            slots=configuration.slots,
            block_size=configuration.block_size,
            blocks_per_chunk=configuration.blocks_per_chunk,
            join_timeout=configuration.join_timeout,
            heartbeat_timeout=configuration.heartbeat_timeout,
            encrypt=configuration.encrypts,
        )

    def key(self, client: SwitchClient, agreement: Agreement) -> bytes:
        """Asks for the key of a job's packets, which the agreement does not have: it is published in the clear.

        Returns:
          The key; empty if the packets are in the clear.

        Raises:
          JobRejectedError: there is no such job any more.
        """
        if not self._configuration.encrypts:
            return b""
        return client.key(agreement["job"], agreement["secret"])

    def join(
        self,
        client: SwitchClient,
        group: Group,
        worker: int,
        workers: int,
        agreement: Agreement,
        aborted: Callable[[str, str], Any],
        *,
        server: WorkerServer | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> list[WorkerServer]:
        """Joins a group's job, and waits until all workers of the job have joined.

        Args:
          client: calls the service that has the job.
          group: the group.
          worker: this process's worker.
          workers: how many workers the job has.
          agreement: "job" and "secret" of it are used.
          aborted: called once with the code and message of the error that ends the job, on another thread.
          server: this worker's own server, if the job is summed at such servers.
          check: called from time to time during the wait. If it raises a JaxinaError, the job ends with it.

        Returns:
          The servers of all workers, in the workers' order. Empty if the job is summed elsewhere.

        Raises:
          NeverJoinedError: a worker did not join in time.
          JaxinaError: the join was refused, or the job has ended.
        """
        configuration = self._configuration
        deadline = time.monotonic() + configuration.join_timeout
        session = client.join(
            agreement["job"],
            agreement["secret"],
            [worker],
            heartbeat_timeout=configuration.heartbeat_timeout,
            statistics=self._statistics,
            aborted=aborted,
            server=server,
        )
        try:
            while not session.wait_until_complete(min(deadline, time.monotonic() + _SLICE)):
                check()
                if time.monotonic() >= deadline:
                    raise self._never_joined(client, agreement, workers)
        except JaxinaError as error:
            session.leave(error.code, error.message)
            raise
        except BaseException as error:  # Ctrl-C: the heartbeats would keep a worker alive that nobody has
            session.leave(WorkerLostError.code, f"ended with {error!r}")
            raise
        with self._lock:
            self._sessions[group] = session
        return session.servers

    def _never_joined(self, client: SwitchClient, agreement: Agreement, workers: int) -> NeverJoinedError:
        reply = client.who_is_missing(agreement["job"], agreement["secret"])
        missing = ", ".join(map(str, reply.not_joined))
        return NeverJoinedError(
            f"worker {missing} of {workers} did not join job {agreement['job']} at {client.address} within "
            f"{self._configuration.join_timeout:g} s; see its output. If it starts slowly, raise JAXINA_JOIN_TIMEOUT"
        )

    def end(self, group: Group, code: str, message: str) -> None:
        """Ends the group's job for all its processes."""
        with self._lock:
            session = self._sessions.pop(group, None)
        if session is not None:
            session.leave(code, message)

    def leave(self, failure: str | None, wait_for_others: bool = False) -> None:
        """Leaves all jobs.

        Args:
          failure: why this process ends; None if nothing failed.
          wait_for_others: whether to return only when the other workers have left too, or do not need this process any
            more. It makes no difference after a failure, and for jobs that have ended.
        """
        with self._lock:
            sessions, self._sessions = self._sessions, {}
        staying = {
            group for group, session in sessions.items() if wait_for_others and not failure and not session.ended
        }
        code, message = ("", "") if failure is None else ("WORKER_LOST", f"ended with {failure}")
        # All jobs are left before any is waited for. Otherwise processes could wait for each other in a circle.
        for group, session in sessions.items():
            session.announce_leave(code, message, until_all_left=group in staying)
        deadline = time.monotonic() + LEFT_GRACE
        for group, session in sessions.items():
            session.close(max(0.0, deadline - time.monotonic()) if group in staying else LEAVE)


def check_alive(processes: Sequence[int], ended: set[int]) -> None:
    """Checks that none of a job's processes, which all are to join, has ended.

    Args:
      processes: the process of each worker.
      ended: the processes that are known to have ended.

    Raises:
      WorkerLostError: one has.
    """
    for worker, process in enumerate(processes):
        if process in ended:
            raise WorkerLostError(f"worker {worker} (process {process}) ended before it joined; see its output")
