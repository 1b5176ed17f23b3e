"""A worker: it gets the model, announces updates, sends them as planned, and adds those of others."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import logging
import math
import threading
import time
from typing import Any

import numpy as np

from jaxina.control.tls import Tls
from jaxina.errors import CollectiveTimeoutError, InvalidArgumentError, JaxinaError, JobRejectedError, from_code
from jaxina.fabric.codec import Codec
from jaxina.fabric.gathering import Gathering
from jaxina.fabric.model import Vector, vector_of
from jaxina.fabric.service import fabric_pb2 as pb
from jaxina.fabric.service.deliveries import Deliveries, Frame
from jaxina.fabric.service.messages import expected_of
from jaxina.fabric.service.session import FabricSession
from jaxina.fabric.service.settings import REPLICA
from jaxina.fabric.transfer.frame import Header, Kind
from jaxina.fabric.transfer.receiver import Receiver

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an update.

    Attributes:
      committed: whether the model has it.
      version: of the model with it; if it was dropped, of about that time.
      reason: why it was dropped.
    """

    committed: bool
    version: int
    reason: str = ""


@dataclasses.dataclass(slots=True)
class _Own:
    """An update of this worker that somebody may still need."""

    payload: bytes
    decoded: Vector
    version: int
    outcome: concurrent.futures.Future[Outcome]


class Client:
    """A worker of a job, from construction to `close`.

    Args:
      scheduler: its address, HOST:PORT.
      rank: which worker this is.
      bind: HOST:PORT at which frames are taken; port 0 picks a free one. Other hosts must reach it.
      token: the scheduler's, if it needs one.
      tls: this process's certificate, if the scheduler uses TLS (``jaxina.control.tls.tls_of``).
      timeout: seconds to wait for the scheduler.

    Raises:
      JaxinaError: it cannot listen or join.
    """

    def __init__(
        self,
        scheduler: str,
        rank: int,
        bind: str = "127.0.0.1:0",
        token: str | None = None,
        tls: Tls | None = None,
        timeout: float = 60.0,
    ) -> None:
        self._changed = threading.Condition()
        self._over: JaxinaError | None = None  # why this worker takes part no more
        self._count = 0
        self._codec: Codec | None = None
        self._memory: Any = None  # of the encoder
        self._own: dict[int, _Own] = {}
        self._gatherings: dict[int, tuple[Gathering, pb.Way]] = {}  # by group
        self._request: int | None = None  # for the model
        self._model: tuple[Vector, int] | None = None  # the answer
        self._receiver = Receiver(bind)
        join = pb.Join(role=pb.WORKER, rank=rank, address=self._receiver.address)
        try:
            self._session = FabricSession(scheduler, join, timeout, token, tls)
        except BaseException:
            self._receiver.close()
            raise
        joined = self._session.joined
        self._number = joined.number
        self._patience = joined.patience_s
        self._compressor = joined.compressor
        self._optimizer = self._session.optimizer
        self._deliveries = Deliveries(joined.secret, self._patience, self._measured)
        self._session.listen(self._handle, self._end)
        self._receiver.serve(joined.secret, self._admit, self._take, self._patience)

    def model(self, timeout: float = 60.0) -> tuple[Vector, int]:
        """Gets the model as it is about now: float32[elements], and its version.

        Raises:
          CollectiveTimeoutError: it did not come in time.
          JaxinaError: the error that ended the job.
          JobRejectedError: this worker has left it.
        """
        with self._changed:
            self._request = self._name()
            self._model = None
            self._session.say(want=pb.Want(name=self._request))
            self._changed.wait_for(lambda: self._model is not None or self._over is not None, timeout)
            self._request = None
            if self._model is not None:
                return self._model
            if self._over is not None:
                raise self._over
            raise CollectiveTimeoutError(f"no model came within {timeout:g} s")

    def submit(self, update: Vector, version: int) -> concurrent.futures.Future[Outcome]:
        """Announces an update. It is sent once it is planned.

        Args:
          update: float32[elements], finite, of the size of a model that this client got before. It is copied.
          version: of the model that it was computed from.

        Returns:
          What becomes of it. The future raises what the scheduler refuses it with, or the error that ended the job. It
          cannot be cancelled.

        Raises:
          InvalidArgumentError: it is no such vector, or no model came before.
          JaxinaError: the error that ended the job.
          JobRejectedError: this worker has left it.
        """
        if self._codec is None:
            raise InvalidArgumentError("get the model before you submit updates of it")
        with self._changed:
            name = self._name()
        payload, decoded, self._memory = self._codec.encode(update, name, self._memory)
        own = _Own(payload, decoded, version, concurrent.futures.Future())
        own.outcome.set_running_or_notify_cancel()  # nobody can take the update back
        norm = math.sqrt(float(np.dot(decoded.astype(np.float64), decoded)))
        with self._changed:
            if self._over is not None:
                raise self._over
            self._own[name] = own
        self._session.say(ready=pb.Ready(name=name, size=len(payload), version=version, norm=norm))
        return own.outcome

    def finish(self, timeout: float = 60.0) -> None:
        """Waits until nobody needs an update of this worker any more, or the job has ended.

        Raises:
          CollectiveTimeoutError: somebody still does after so many seconds.
        """
        with self._changed:
            over = self._changed.wait_for(
                lambda: (not self._own and not self._gatherings) or self._over is not None, timeout
            )
        if not over:
            raise CollectiveTimeoutError(f"after {timeout:g} s, an update of this worker is still on its way")

    def close(self) -> None:
        """Leaves the job. Updates that are not delivered are lost."""
        self._session.leave()
        self._receiver.close()
        self._deliveries.close()
        self._end(JobRejectedError("this worker has left the job"))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _name(self) -> int:
        self._count += 1
        return self._number << 32 | self._count

    # ---- what the scheduler says

    def _handle(self, message: pb.SchedulerMessage) -> None:
        kind = message.WhichOneof("kind")
        with self._changed:
            if kind == "send":
                self._send(message.send)
            elif kind == "gather":
                self._gather(message.gather)
            elif kind == "abandon":
                for group, (gathering, _) in list(self._gatherings.items()):
                    gathering.abandon(list(message.abandon.names))
                    self._forward(group)
            elif kind == "ungroup":
                self._gatherings.pop(message.ungroup.group, None)
                self._deliveries.cancel(lambda key: key == ("sum", message.ungroup.group))
            elif kind == "outcome":
                told = message.outcome
                if (own := self._own.get(told.name)) is not None and not own.outcome.done():
                    own.outcome.set_result(Outcome(told.committed, told.version, told.reason))
                self._deliveries.cancel(lambda key: key == ("update", told.name))
            elif kind == "release":
                for name in message.release.names:
                    self._own.pop(name, None)
                released = set(message.release.names)
                self._deliveries.cancel(lambda key: isinstance(key, tuple) and key[1] in released)
            elif kind == "refused" and (own := self._own.pop(message.refused.name, None)) is not None:
                own.outcome.set_exception(from_code(message.refused.code, message.refused.message))
            self._changed.notify_all()

    def _send(self, send: pb.Send) -> None:
        if (own := self._own.get(send.name)) is None:
            return  # nobody needs it any more
        key = ("copy" if send.way.host == REPLICA else "update", send.name)
        self._deliveries.start(key, send.way, Frame(Kind.UPDATE, (send.name,), send.version, own.payload))

    def _gather(self, gather: pb.Gather) -> None:
        gathering = Gathering(expected_of(gather.turns), self._optimizer)
        self._gatherings[gather.group] = (gathering, gather.way)
        for name in gathering.names:
            if (own := self._own.get(name)) is not None:
                gathering.arrive(name, own.decoded)
        self._forward(gather.group)

    def _forward(self, group: int) -> None:
        """Sends a sum once all of it is there."""
        gathering, way = self._gatherings[group]
        if not gathering.complete:
            return
        del self._gatherings[group]
        if (done := gathering.sum()) is not None:
            names, version, total = done
            self._deliveries.start(("sum", group), way, Frame(Kind.SUM, names, version, total.astype("<f4").tobytes()))

    def _end(self, error: JaxinaError) -> None:
        with self._changed:
            self._over = self._over or error
            for own in self._own.values():
                if not own.outcome.done():
                    own.outcome.set_exception(error)
            self._own.clear()
            self._gatherings.clear()
            self._changed.notify_all()
        self._deliveries.cancel(lambda key: True)

    # ---- frames

    def _admit(self, header: Header) -> None:
        """Refuses what was not asked for. An update may come before its plan does, so it waits a little for that."""
        with self._changed:
            if header.kind is Kind.MODEL:
                self._check_model(header)
                return
            if header.kind is not Kind.UPDATE or len(header.names) != 1:
                raise JobRejectedError(f"nobody has asked for a {header.kind.name.lower()} here")
            deadline = time.monotonic() + self._patience
            while (group := self._group_of(header.names[0])) is None and self._over is None:
                if not self._changed.wait(max(0.0, deadline - time.monotonic())) and time.monotonic() >= deadline:
                    break
            if group is None:
                raise JobRejectedError(f"update {header.names[0]:#x} is not added here")
            self._gatherings[group][0].check(header.names[0], header.version, header.size)

    def _check_model(self, header: Header) -> None:
        if header.names != (self._request,):
            raise JobRejectedError("nobody has asked for this model")
        if header.size < 4 or (self._codec is not None and header.size != 4 * self._codec.elements):
            raise InvalidArgumentError(f"a model of {header.size} bytes is not that of this job")

    def _take(self, header: Header, payload: bytes) -> None:
        if header.kind is Kind.MODEL:
            weights = vector_of(payload)
            with self._changed:
                self._check_model(header)
                if self._codec is None:
                    codec = Codec(self._compressor, len(weights))
                    self._memory, self._codec = codec.memory(), codec
                self._model = weights, header.version
                self._changed.notify_all()
            return
        if self._codec is None:
            raise JobRejectedError("this worker has no model yet")
        name = header.names[0]
        try:
            update = self._codec.decode(payload, name)
        except InvalidArgumentError:
            with self._changed:
                if (group := self._group_of(name)) is not None:
                    self._gatherings[group][0].abandon([name])
                    self._forward(group)
            raise
        with self._changed:
            if (group := self._group_of(name)) is None:
                raise JobRejectedError(f"update {name:#x} is not added here any more")
            self._gatherings[group][0].arrive(name, update)
            self._forward(group)
            self._changed.notify_all()

    def _group_of(self, name: int) -> int | None:
        return next((group for group, (gathering, _) in self._gatherings.items() if name in gathering.names), None)

    def _measured(self, host: str, given: float, planned: float) -> None:
        self._session.say(measured=pb.Measured(to=host, bytes_per_s=given, planned_per_s=planned))
