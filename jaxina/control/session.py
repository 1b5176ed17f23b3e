"""A process's membership in one job of a switch: a stream with heartbeats to the switch and events from it."""

from __future__ import annotations

import logging
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import grpc

from jaxina.control import control_pb2 as pb
from jaxina.control import limits
from jaxina.control.typed_status import error_from, unreachable
from jaxina.errors import JaxinaError, SwitchUnreachableError, from_code

_log = logging.getLogger(__name__)

# A worker leaves when it has all its results. The others then get theirs within a retransmission or two. A sum that is
# still pending after this time needs the worker that left, and would never finish.
LEFT_GRACE = 10.0  # seconds
_LEAVE_TIMEOUT = 2.0


class Session:
    """A membership in a job. The constructor joins.

    Args:
      stream: the gRPC stub's Session method.
      address: the switch's, for messages.
      job: the job.
      secret: the job's secret.
      ranks: the workers of this process.
      timeout: seconds to wait for the switch's answer to the join.
      metadata: the call's metadata.
      heartbeat_timeout: the job's, in seconds. A heartbeat is sent each quarter of it.
      statistics: returns the statistics for a heartbeat.
      aborted: called once with the code and message of the error that ended the job, on a thread of the session.

    Raises:
      JaxinaError: the switch did not answer, or refused the join.
    """

    def __init__(
        self,
        stream: Any,
        address: str,
        job: int,
        secret: int,
        ranks: Sequence[int],
        *,
        timeout: float,
        metadata: Sequence[tuple[str, str]],
        heartbeat_timeout: float,
        statistics: Callable[[], dict[str, int]],
        aborted: Callable[[str, str], Any],
    ):
        self.job = job
        self._address = address
        self._every = heartbeat_timeout / 4
        self._statistics = statistics
        self._aborted = aborted
        self._outgoing: queue.SimpleQueue[pb.WorkerMessage] = queue.SimpleQueue()
        self._outgoing.put(
            pb.WorkerMessage(
                join=pb.Join(job=job, secret=secret, ranks=ranks, host=socket.gethostname(), pid=os.getpid())
            )
        )
        self._joined = threading.Event()
        self._ready = threading.Event()  # all workers have joined, or the session has failed
        self._error: JaxinaError | None = None
        self._leaving = False
        self._left_timer: threading.Timer | None = None
        self._call = stream(self._requests(), metadata=metadata, wait_for_ready=True)
        self._thread = threading.Thread(target=self._receive, name=f"jaxina-session-{job}", daemon=True)
        self._thread.start()
        if not self._joined.wait(timeout):
            self._fail(unreachable(address, f"no answer to the join within {timeout:g} s"))
            self._call.cancel()
        if self._error is not None:
            raise self._error

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
        self._leaving = True
        if self._left_timer is not None:
            self._left_timer.cancel()
        why = pb.Leave(code=code, message=message[: limits.MAX_TEXT])
        self._outgoing.put(pb.WorkerMessage(leave=why))
        self._thread.join(_LEAVE_TIMEOUT)
        self._call.cancel()
        self._thread.join(_LEAVE_TIMEOUT)

    def _requests(self) -> Iterator[pb.WorkerMessage]:
        while True:
            try:
                message = self._outgoing.get(timeout=self._every)
            except queue.Empty:
                message = pb.WorkerMessage(heartbeat=pb.Heartbeat(statistics=self._statistics()))
            yield message
            if message.WhichOneof("kind") == "leave":
                return

    def _receive(self) -> None:
        try:
            for message in self._call:
                self._handle(message)
            self._end(unreachable(self._address, "it closed the session, so it was probably stopped"))
        except grpc.RpcError as error:
            self._end(error_from(error, self._address))

    def _handle(self, message: pb.SwitchMessage) -> None:
        kind = message.WhichOneof("kind")
        if kind == "joined":
            self._joined.set()
        elif kind == "ready":
            self._ready.set()
        elif kind == "aborted":
            self._fail_code(message.aborted.code, message.aborted.message)
        elif kind == "left" and not self._leaving and self._left_timer is None:
            ranks = ", ".join(map(str, message.left.ranks))
            self._left_timer = threading.Timer(
                LEFT_GRACE,
                self._fail_code,
                (
                    "WORKER_LOST",
                    f"worker {ranks} called jaxina.shutdown() or ended, so this sum cannot finish",
                ),
            )
            self._left_timer.daemon = True
            self._left_timer.start()

    def _end(self, error: JaxinaError) -> None:
        """Handles the end of the stream."""
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
