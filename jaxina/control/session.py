"""A process's membership in one job: a stream with heartbeats to the control service and events from it."""

from __future__ import annotations

import dataclasses
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jaxina.control import control_pb2 as pb
from jaxina.control.message_stream import LEAVE, MessageStream, sendable
from jaxina.control.servers import WorkerServer
from jaxina.errors import JaxinaError, SwitchUnreachableError, from_code

_log = logging.getLogger(__name__)

# A worker leaves when it has all its results. The others then get theirs within a retransmission or two. A sum that is
# still pending after this time needs the worker that left, and would never finish.
LEFT_GRACE = 10.0  # seconds


def has_left(ranks: Iterable[int]) -> str:
    """The message of the error for a sum that needs workers that have left in order."""
    workers = ", ".join(map(str, sorted(ranks)))
    return f"worker {workers} called jaxina.shutdown() or ended, so this sum cannot finish"


class Session:
    """A membership in a job. The constructor joins.

    Args:
      stream: the gRPC stub's Session method.
      gone: makes the error for a service that does not answer the join, from a text that says what happened.
      lost: the same for a service that breaks off after the join.
      job: the job.
      secret: the job's secret.
      ranks: the workers of this process.
      timeout: seconds to wait for the switch's answer to the join.
      metadata: the call's metadata.
      heartbeat_timeout: the job's, in seconds. A heartbeat is sent each quarter of it.
      statistics: returns the statistics for a heartbeat.
      aborted: called once with the code and message of the error that ended the job, on a thread of the session.
      server: this process's server, if the job is summed at the workers' own servers.
      at_worker: the worker in whose process the service runs; None: it runs at a switch.

    Attributes:
      servers: once the job is complete, the servers of all workers, in the workers' order; empty if they have none.

    Raises:
      JaxinaError: the service did not answer, or refused the join.
    """

    def __init__(
        self,
        stream: Any,
        gone: Callable[[str], JaxinaError],
        lost: Callable[[str], JaxinaError],
        job: int,
        secret: int,
        ranks: Sequence[int],
        *,
        timeout: float,
        metadata: Sequence[tuple[str, str]],
        heartbeat_timeout: float,
        statistics: Callable[[], dict[str, int]],
        aborted: Callable[[str, str], Any],
        server: WorkerServer | None = None,
        at_worker: int | None = None,
    ):
        self.job = job
        self.servers: list[WorkerServer] = []
        self._lost = lost
        self._at_worker = at_worker
        self._left: set[int] = set()
        self._aborted = aborted
        join = pb.Join(job=job, secret=secret, ranks=ranks, host=socket.gethostname(), pid=os.getpid())
        if server is not None:
            join.server.CopyFrom(pb.WorkerServer(**dataclasses.asdict(server)))
        self._joined = threading.Event()
        self._ready = threading.Event()  # all workers have joined, or the session has failed
        self._error: JaxinaError | None = None
        self._leaving = False
        self._left_timer: threading.Timer | None = None
        self._stream = MessageStream(
            stream,
            pb.WorkerMessage(join=join),
            metadata,
            gone,
            wait_for_ready=at_worker is None,
            heartbeat=lambda: pb.WorkerMessage(heartbeat=pb.Heartbeat(statistics=statistics())),
            every=heartbeat_timeout / 4,
        )
        try:
            self._stream.read_by(self._receive, f"jaxina-session-{job}")
            answered = self._joined.wait(timeout)
        except BaseException:  # Ctrl-C: the heartbeats would keep a worker alive that nobody has
            self._leaving = True
            self._stream.finish()
            self._stream.cancel()
            raise
        if not answered:
            self._fail(gone(f"no answer to the join within {timeout:g} s"))
            self._stream.cancel()
        if self._error is not None:
            raise self._error

    @property
    def ended(self) -> bool:
        """Whether the job has ended with an error."""
        return self._error is not None

    def wait_until_complete(self, deadline: float) -> bool:
        """Waits until all workers have joined, or until `deadline` (of `time.monotonic`). Returns whether they have.

        Raises:
          JaxinaError: the error that ended the job, if it has ended.
        """
        complete = self._ready.wait(max(0.0, deadline - time.monotonic()))
        if self._error is not None:
            raise self._error
        return complete

    def leave(self, code: str = "", message: str = "") -> None:
        """Leaves the job, within a few seconds. With a code, the job ends with that error for all other workers."""
        self.announce_leave(code, message)
        self.close()

    def announce_leave(self, code: str = "", message: str = "", until_all_left: bool = False) -> None:
        """Says that this process leaves, and does not wait. `close` must follow.

        Args:
          code: the code of an error with which the job ends for all other workers; empty to leave in order.
          message: the error's message.
          until_all_left: whether `close` waits until the other workers have left too.
        """
        self._leaving = True
        if self._left_timer is not None:
            self._left_timer.cancel()
        why = pb.Leave(code=code, message=sendable(message), until_all_left=until_all_left)
        self._stream.say(pb.WorkerMessage(leave=why))
        self._stream.finish()

    def close(self, timeout: float = LEAVE) -> None:
        """Waits for the end of the stream, and ends it after `timeout` seconds if need be."""
        self._stream.close(timeout)

    def _receive(self) -> None:
        try:
            for message in self._stream:
                self._handle(message)
            self._end(self._stream.gone("it closed the session, so it was probably stopped"))
        except JaxinaError as error:
            self._end(error)

    def _handle(self, message: pb.SwitchMessage) -> None:
        kind = message.WhichOneof("kind")
        if kind == "joined":
            self._stream.gone = self._lost
            self._joined.set()
        elif kind == "ready":
            self.servers = [WorkerServer(one.host, one.port, one.room) for one in message.ready.servers]
            self._ready.set()
        elif kind == "aborted":
            self._fail_code(message.aborted.code, message.aborted.message)
        elif kind == "left" and not self._leaving:
            self._left.update(message.left.ranks)
            if self._left_timer is None:
                self._left_timer = threading.Timer(LEFT_GRACE, self._fail_code, ("WORKER_LOST", has_left(self._left)))
                self._left_timer.daemon = True
                self._left_timer.start()

    def _end(self, error: JaxinaError) -> None:
        """Handles the end of the stream."""
        if self._at_worker in self._left:
            return  # the timer ends the job, if there is still something to sum
        if not self._leaving:
            if isinstance(error, SwitchUnreachableError) and self._joined.is_set():
                error = SwitchUnreachableError(f"lost the connection to the switch in job {self.job}: {error.message}")
            self._fail(error)

    def _fail_code(self, code: str, message: str) -> None:
        self._fail(from_code(code, message))

    def _fail(self, error: JaxinaError) -> None:
        if self._error is not None or self._leaving:
            return
        self._error = error
        was_joined = self._joined.is_set()
        self._joined.set()
        self._ready.set()
        if was_joined:
            _log.warning("job %d ended: %s", self.job, error.message)
            self._aborted(error.code, error.message)
