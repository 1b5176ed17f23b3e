"""A member's stream of messages to and from the keeper."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from jaxina.control import grpc_options
from jaxina.control.message_stream import MessageStream, sendable
from jaxina.control.tls import Tls, why_refused
from jaxina.control.token_check import metadata_of
from jaxina.elastic import elastic_pb2 as pb
from jaxina.elastic import elastic_pb2_grpc
from jaxina.errors import JaxinaError, SwitchUnreachableError, from_code

_BEATS = 4  # heartbeats in the time after which silence is a death
_FIRST_BEAT = 1.0  # seconds until the first heartbeat, when the keeper has not yet said how often


class Attendance:
    """A membership. The constructor joins.

    Args:
      address: the keeper's, HOST:PORT.
      join: the first message.
      timeout: seconds to wait for a keeper that is not there yet, and for its answer.
      token: the keeper's, if it needs one.
      tls: this process's certificate, if the keeper asks for one.
      stop: ``stop(code, message)`` ends the sums that are under way, because the generation is over. It is called on a
        thread of the session, before this class tells of it.

    Attributes:
      number: this member's.

    Raises:
      JaxinaError: no keeper answers, or it refuses the member.
    """

    def __init__(
        self,
        address: str,
        join: pb.Join,
        timeout: float,
        token: str | None,
        tls: Tls | None,
        stop: Callable[[str, str], object],
    ):
        self._address = address
        self._stop = stop
        self._over = 0  # this generation and all before it are over
        self._changed = threading.Condition()
        self._next: pb.Formed | None = None
        self._incoming: queue.SimpleQueue[pb.KeeperMessage | JaxinaError] = queue.SimpleQueue()
        self._leaving = False
        self._channel = grpc_options.channel(address, tls)
        self._stream = MessageStream(
            elastic_pb2_grpc.KeeperStub(self._channel).Attend,
            pb.MemberMessage(join=join),
            metadata_of(token),
            lambda why: why_refused(address, tls) or _unreachable(address, why),
            heartbeat=lambda: pb.MemberMessage(heartbeat=pb.Heartbeat()),
            every=_FIRST_BEAT,
        )
        try:
            first = self._stream.first(timeout)
        except BaseException:  # Ctrl-C, too: gRPC's threads would keep a member alive that nobody has
            self._stream.finish()
            self._stream.close()
            self._channel.close()
            raise
        self.number: int = first.joined.number
        self._stream.gone = lambda why: _lost(address, why)
        self._stream.every = first.joined.heartbeat_timeout_s / _BEATS
        self._stream.read_by(self._receive, "jaxina-attendance")

    # ---- what this member says

    def ready(self, generation: int) -> None:
        """This member has the state, and can sum."""
        self._say(ready=pb.Ready(generation=generation))

    def vote(self, generation: int, step: int, digest: bytes) -> None:
        """This member has computed the step."""
        self._say(vote=pb.Vote(generation=generation, step=step, digest=digest))

    def failed(self, generation: int, error: JaxinaError) -> None:
        """This member could not compute the step, perhaps because of another one."""
        self._say(failed=pb.Failed(generation=generation, code=error.code, message=sendable(error.message)))

    def leave(self, error: BaseException | None = None) -> None:
        """Leaves the team. With an error the others are told why."""
        self._leaving = True
        code, message = "", ""
        if isinstance(error, JaxinaError):
            code, message = error.code, error.message
        elif error is not None:
            code, message = "WORKER_LOST", f"{type(error).__name__}: {error}"
        self._say(leave=pb.Leave(code=code, message=sendable(message)))
        self._stream.finish()
        self._stream.close()
        self._channel.close()

    # ---- what the keeper says

    def is_over(self, generation: int) -> bool:
        """Whether the generation is over. Any thread may ask."""
        return self._over >= generation

    def is_over_within(self, generation: int, seconds: float) -> bool:
        """Waits until the generation is over. Returns False if it is not within so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self.is_over(generation), seconds)

    def formed(self) -> pb.Formed:
        """Waits for the newest generation. The keeper's deadlines bound the wait.

        Raises:
          JaxinaError: the error that ended this membership.
        """
        while self._next is None or self.is_over(self._next.generation):
            self._take()
        formed, self._next = self._next, None
        return formed

    def goes(self, generation: int) -> bool:
        """Waits until all members are ready. Returns False if the generation is over instead.

        Raises:
          JaxinaError: the error that ended this membership.
        """
        return self._wait_for(generation, lambda message: message.go.generation == generation)

    def committed(self, generation: int, step: int) -> bool:
        """Waits until all members have computed the step. Returns False if the generation is over before.

        Raises:
          JaxinaError: the error that ended this membership.
        """
        wanted = pb.Committed(generation=generation, step=step)
        return self._wait_for(generation, lambda message: message.committed == wanted)

    # ---- inside

    def _wait_for(self, generation: int, is_it: Callable[[pb.KeeperMessage], bool]) -> bool:
        # In the order in which the keeper decided: a step may be committed before its generation is over.
        while True:
            message = self._take()
            if is_it(message):
                return True
            kind = message.WhichOneof("kind")
            if kind == "formed" or (kind == "stopped" and message.stopped.generation >= generation):
                return False

    def _take(self) -> pb.KeeperMessage:
        message = self._incoming.get()
        if isinstance(message, JaxinaError):
            self._incoming.put(message)  # for all who ask later
            raise message
        if message.WhichOneof("kind") == "formed":
            self._next = message.formed
        return message

    def _receive(self) -> None:
        error: JaxinaError | None = None
        try:
            for message in self._stream:
                kind = message.WhichOneof("kind")
                if kind == "ended":
                    error = from_code(message.ended.code, message.ended.message)
                    break
                if kind == "formed":
                    self._is_over(message.formed.generation - 1, "WORKER_LOST", message.formed.why)
                elif kind == "stopped":
                    self._is_over(message.stopped.generation, message.stopped.code, message.stopped.message)
                self._incoming.put(message)
        except JaxinaError as broken:
            error = broken
        if self._leaving:
            return
        error = error or _lost(self._address, "it closed the connection")
        self._incoming.put(error)
        self._is_over(2**63, error.code, error.message)

    def _is_over(self, generation: int, code: str, message: str) -> None:
        if generation > self._over:
            with self._changed:
                self._over = generation
                self._changed.notify_all()
            self._stop(code, message)

    def _say(self, **message: Any) -> None:
        self._stream.say(pb.MemberMessage(**message))


def _unreachable(address: str, why: str) -> SwitchUnreachableError:
    return SwitchUnreachableError(
        f"no keeper answers at {address} ({why}). Start one with `jaxina keeper --bind {address}`, or name a running "
        "one by JAXINA_KEEPER"
    )


def _lost(address: str, why: str) -> SwitchUnreachableError:
    return SwitchUnreachableError(
        f"the keeper at {address} is gone ({why}), so nobody can say any more which steps count. Start another one, "
        "and all members again, from a checkpoint"
    )
