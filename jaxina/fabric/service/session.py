"""A host's membership in a job: its stream of messages to and from the scheduler."""

from __future__ import annotations

import logging
from collections.abc import Callable

import grpc

from jaxina.control import grpc_options
from jaxina.control.message_stream import MessageStream, sendable
from jaxina.control.tls import Tls, why_refused
from jaxina.control.token_check import metadata_of
from jaxina.control.typed_status import error_from
from jaxina.errors import JaxinaError, SwitchUnreachableError, from_code
from jaxina.fabric.service import fabric_pb2 as pb
from jaxina.fabric.service import fabric_pb2_grpc
from jaxina.fabric.service.messages import optimizer_of

_log = logging.getLogger(__name__)


def unreachable(address: str, why: str) -> SwitchUnreachableError:
    """Makes the error that says that no scheduler answers."""
    return SwitchUnreachableError(
        f"no scheduler answers at {address} ({why}). Start one with `jaxina fabric scheduler --bind {address}`"
    )


def _without_answer(address: str, tls: Tls | None) -> Callable[[str], JaxinaError]:
    """Makes the error that says why no scheduler answers: TLS, or else what gRPC says."""
    return lambda why: why_refused(address, tls) or unreachable(address, why)


class FabricSession:
    """A membership. The constructor joins; messages are handled from `listen` on, on a thread of the session.

    Args:
      address: the scheduler's, HOST:PORT.
      join: the first message.
      timeout: seconds to wait for a scheduler that is not there yet, and for its answer.
      token: the scheduler's token, if it needs one.
      tls: this process's certificate, if the scheduler uses TLS.

    Attributes:
      joined: the scheduler's answer.
      optimizer: the server's.
      error: what ended the job; None while it goes on.

    Raises:
      JaxinaError: no scheduler answers, or it refuses the host.
    """

    def __init__(self, address: str, join: pb.Join, timeout: float, token: str | None, tls: Tls | None) -> None:
        self.error: JaxinaError | None = None
        self._address = address
        self._leaving = False
        self._channel = grpc_options.channel(address, tls)
        self._stream = MessageStream(
            fabric_pb2_grpc.FabricStub(self._channel).Session,
            pb.HostMessage(join=join),
            metadata_of(token),
            _without_answer(address, tls),
        )
        try:
            self.joined: pb.Joined = self._stream.first(timeout).joined
            self.optimizer = optimizer_of(self.joined)
        except BaseException:  # also the user's interrupt: the call would go on, and join later
            self._stop()
            raise
        self._stream.gone = lambda why: unreachable(address, why)  # whoever has joined uses TLS as the scheduler does

    def listen(self, handle: Callable[[pb.SchedulerMessage], None], ended: Callable[[JaxinaError], None]) -> None:
        """Handles messages from now on.

        Args:
          handle: gets each. It may not wait for another.
          ended: called once, with the error that ended the job, unless this host has left before.
        """

        def receive() -> None:
            error: JaxinaError = unreachable(self._address, "it closed the session, so it was probably stopped")
            try:
                for message in self._stream:
                    if message.WhichOneof("kind") == "end":
                        error = from_code(message.end.code, message.end.message)
                        break
                    handle(message)
            except JaxinaError as wrong:
                error = wrong
            except Exception as wrong:  # a host that cannot follow must not go on
                _log.exception("a message of the scheduler failed")
                error = JaxinaError(f"a message of the scheduler failed: {wrong!r}")
            if not self._leaving:
                self.error = self.error or error
                ended(self.error)
            self._stream.cancel()

        self._stream.read_by(receive, "jaxina-fabric-session")

    def say(self, **message: object) -> None:
        """Sends a message. Any thread may."""
        self._stream.say(pb.HostMessage(**message))  # type: ignore[arg-type]

    def fail(self, error: JaxinaError) -> None:
        """Leaves the job because of an error, and tells the scheduler which. Any thread may."""
        self.error = error
        self.say(leave=pb.Leave(code=error.code, message=sendable(error.message)))
        self._stream.finish()

    def leave(self) -> None:
        """Leaves the job, within a few seconds. Not from a thread of the session."""
        self._leaving = True
        self.say(leave=pb.Leave())
        self._stop()

    def _stop(self) -> None:
        self._stream.finish()
        self._stream.close()
        self._channel.close()


def ask_status(address: str, timeout: float, token: str | None, tls: Tls | None) -> pb.StatusReply:
    """Asks a scheduler for the state of its job.

    Raises:
      JaxinaError: none answers, or it refuses.
    """
    with grpc_options.channel(address, tls) as channel:
        stub = fabric_pb2_grpc.FabricStub(channel)
        try:
            return stub.Status(pb.StatusRequest(), timeout=timeout, metadata=metadata_of(token), wait_for_ready=True)
        except grpc.RpcError as error:
            raise error_from(error, _without_answer(address, tls)) from None
