"""A server of the model, or its replica: frames and plans go in, commits come out, in the order of the plan."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from jaxina.control.tls import Tls
from jaxina.errors import InvalidArgumentError, JaxinaError, JobRejectedError, SystemCallError, WorkerLostError
from jaxina.fabric.codec import Codec
from jaxina.fabric.commit_log import CommitLog
from jaxina.fabric.follower import Follower
from jaxina.fabric.ledger import Ledger
from jaxina.fabric.model import Model, Vector, model_of, vector_of
from jaxina.fabric.service import fabric_pb2 as pb
from jaxina.fabric.service.deliveries import Deliveries, Frame
from jaxina.fabric.service.messages import expected_of
from jaxina.fabric.service.session import FabricSession
from jaxina.fabric.transfer.frame import Header, Kind
from jaxina.fabric.transfer.receiver import Receiver
from jaxina.fabric.turns import Arrived, Commit, Lost

_log = logging.getLogger(__name__)


class ModelServer:
    """Serves from construction to `close`.

    Args:
      scheduler: its address, HOST:PORT.
      bind: HOST:PORT at which frames are taken; port 0 picks a free one.
      weights: float32[elements], the model at the beginning. None: be the replica.
      log: where the commits are written, if anywhere. A replica begins it when it becomes the server.
      token: the scheduler's, if it needs one.
      tls: this process's certificate, if the scheduler uses TLS (``jaxina.control.tls.tls_of``).
      timeout: seconds to wait for the scheduler.
      ended: called, on another thread, when the job has ended with an error.

    Attributes:
      error: what ended the job; None while it goes on.

    Raises:
      JaxinaError: it cannot listen or join, or the log exists.
    """

    def __init__(
        self,
        scheduler: str,
        bind: str,
        weights: Vector | None = None,
        log: Path | None = None,
        token: str | None = None,
        tls: Tls | None = None,
        timeout: float = 60.0,
        ended: Callable[[], object] = lambda: None,
    ) -> None:
        self.error: JaxinaError | None = None
        self._ended = ended
        self._changed = threading.Condition()
        self._follower = Follower() if weights is None else None
        self._ledger = Ledger()
        self._model: Model | None = None
        self._given: Model | None = None  # the server's, until the replica knows what the server decided before it
        self._log: CommitLog | None = None
        self._log_file = log
        self._told = 0  # the replica's first turn that it may still need, as the scheduler knows it
        self._asked = time.monotonic()  # when the replica has asked for the model, by joining at first
        if log is not None and log.exists():  # before it joins: a server that comes and goes ends the job
            raise InvalidArgumentError(f"cannot begin the log {log}: it exists")
        self._receiver = Receiver(bind)
        self._deliveries: Deliveries | None = None
        role = pb.REPLICA if weights is None else pb.SERVER
        join = pb.Join(role=role, address=self._receiver.address, elements=0 if weights is None else len(weights))
        try:
            self._session = FabricSession(scheduler, join, timeout, token, tls)
        except BaseException:
            self._receiver.close()
            raise
        joined = self._session.joined
        self._optimizer = self._session.optimizer
        self._patience = joined.patience_s
        self._compressor = joined.compressor
        try:
            if weights is not None:
                self._ledger = Ledger(0, self._optimizer.momentum, joined.divergence_bound or None)
                self._begin(Model(weights, self._optimizer))
                self._begin_log()
        except BaseException:
            self._receiver.close()
            self._session.leave()
            raise
        self._deliveries = Deliveries(joined.secret, self._patience, self._measured)
        self._session.listen(self._handle, self._end)
        self._receiver.serve(joined.secret, self._admit, self._take, self._patience)

    @property
    def address(self) -> str:
        """HOST:PORT at which frames are taken."""
        return self._receiver.address

    @property
    def serves(self) -> bool:
        """Whether this is the server, not the replica."""
        return self._follower is None

    def model(self) -> tuple[Vector, int]:
        """A copy of the model, float32[elements], and its version.

        Raises:
          WorkerLostError: the replica has not got one yet.
        """
        with self._changed:
            if self._model is None:
                raise WorkerLostError("the replica has no model yet")
            return self._model.weights.copy(), self._model.version

    def close(self) -> None:
        """Leaves the job."""
        self._session.leave()
        self._receiver.close()
        if self._deliveries is not None:
            self._deliveries.close()
        with self._changed:
            if self._log is not None:
                self._log.close()
                self._log = None

    def __enter__(self) -> ModelServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what the scheduler says

    def _handle(self, message: pb.SchedulerMessage) -> None:
        kind = message.WhichOneof("kind")
        with self._changed:
            turns = self._follower or self._ledger
            if kind == "turns":
                turns.plan(message.turns.first, expected_of(message.turns.turns))
            elif kind == "abandon":
                turns.abandon(list(message.abandon.names))
            elif kind == "decided" and self._follower is not None:
                self._follower.judge(list(message.decided.committed))
            elif kind == "received":
                self._ledger.replica_has(message.received.turns)
            elif kind == "alone":
                self._ledger.stop_waiting_for_replica()
            elif kind == "give":
                self._give(message.give)
            elif kind == "promote":
                self._take_over()
            self._advance()

    def _give(self, give: pb.Give) -> None:
        if self._model is None or self._deliveries is None:
            return  # a replica that has just become the server has one
        kind = Kind.STATE if give.whole else Kind.MODEL
        key = (give.way.host, kind)
        if give.whole and self._deliveries.sends(key):
            return  # the replica asks again while it waits; to begin anew each time would never end
        payload = self._model.state() if give.whole else self._model.weights.astype("<f4").tobytes()
        self._deliveries.start(key, give.way, Frame(kind, (give.name,), self._model.version, payload))

    def _take_over(self) -> None:
        if self._follower is None or self._model is None:
            raise WorkerLostError("the server is lost, and the replica has no model yet")
        follower, self._follower, self._given = self._follower, None, None
        known = follower.judged - follower.next
        results: list[bool] = []
        self._apply(follower.take_over(), results)
        self._ledger = Ledger(follower.planned, self._optimizer.momentum)
        self._session.say(decided=pb.Decided(committed=results[known:]))
        try:
            self._begin_log()
        except JaxinaError as error:
            self._session.fail(error)
            return
        _log.warning("the server is lost, and this replica serves from version %d on", self._model.version)

    def _end(self, error: JaxinaError) -> None:
        self.error = error
        with self._changed:
            self._changed.notify_all()
        self._ended()

    # ---- frames

    def _admit(self, header: Header) -> None:
        """Refuses what is not planned. A frame may come before its plan does, so it waits a little for that."""
        with self._changed:
            if header.kind is Kind.STATE and self._follower is not None:
                return
            if header.kind not in (Kind.UPDATE, Kind.SUM) or (self._follower and header.kind is not Kind.UPDATE):
                raise JobRejectedError(f"nobody has asked for a {header.kind.name.lower()} here")

            def ready() -> bool:
                turns = self._follower or self._ledger
                return self._session.error is not None or (self._model is not None and turns.knows(header.names))

            self._changed.wait_for(ready, self._patience)
            self._check(header)

    def _check(self, header: Header) -> None:
        if self._model is None:
            raise JobRejectedError("the replica has no model yet")
        sum_size = None
        if header.kind is Kind.SUM:
            sum_size = 4 * len(self._model.weights) * self._optimizer.sums
        elif len(header.names) != 1:
            raise InvalidArgumentError(f"an update has one name, not {len(header.names)}")
        (self._follower or self._ledger).check(header.names, header.version, header.size, sum_size)

    def _take(self, header: Header, payload: bytes) -> None:
        if header.kind is Kind.STATE:
            self._load(header, payload)
            return
        try:
            if header.kind is Kind.SUM:
                total = vector_of(payload)
                if not np.isfinite(total).all():
                    raise InvalidArgumentError("a sum has a number that is not finite: it would spoil the model")
            else:
                total = self._optimizer.sum([self._codec.decode(payload, header.names[0])])
        except InvalidArgumentError:
            with self._changed:  # it will not come any better
                (self._follower or self._ledger).abandon(header.names)
                self._advance()
            raise
        with self._changed:
            self._check(header)
            (self._follower or self._ledger).arrive(Arrived(header.names, total, payload, header.kind is Kind.SUM))
            self._advance()

    def _load(self, header: Header, payload: bytes) -> None:
        with self._changed:
            if self._follower is None:
                raise JobRejectedError("this is the server now, and takes no other's model")
            given = model_of(payload, self._optimizer, header.version)
            if self._model is not None and len(given.weights) != (elements := len(self._model.weights)):
                raise InvalidArgumentError(f"a state of {len(given.weights)} weights is not that of {elements}")
            self._given = given
            self._advance()

    # ---- the model; all of this with the lock held

    def _begin(self, model: Model) -> None:
        self._codec = Codec(self._compressor, len(model.weights))
        self._model = model

    def _begin_log(self) -> None:
        if self._log_file is not None and self._model is not None:
            self._log = CommitLog(self._log_file, self._model, self._compressor)

    def _advance(self) -> None:
        """Commits what can be committed, and says so."""
        if self._follower is None:
            self._decide()
        else:
            self._follow(self._follower)
        self._changed.notify_all()

    def _follow(self, follower: Follower) -> None:
        """Commits as the replica, after it has loaded what it was given."""
        if self._given is not None and follower.judged >= self._given.version:
            given, self._given = self._given, None
            self._asked = 0.0
            if self._model is None:
                self._begin(given)
            if given.version >= follower.next:
                self._model = given
                follower.load(given.version)
        if self._model is not None:
            self._apply(follower.decide(), [])
            if follower.received > self._told:
                self._told = follower.received
                self._session.say(received=pb.Received(turns=self._told))
        if (follower.behind or self._model is None) and time.monotonic() - self._asked > self._patience:
            self._asked = time.monotonic()
            self._session.say(behind=pb.Behind())

    def _decide(self) -> None:
        """Commits as the server. If that cannot be logged, the job ends for all: a log that lacks a commit is none."""
        if self._session.error is not None:
            return
        results: list[bool] = []
        failed: SystemCallError | None = None
        try:
            self._apply(self._ledger.decide(), results)
        except SystemCallError as error:
            failed = error
        if results:  # what the model has is told, whatever happened then
            self._session.say(decided=pb.Decided(committed=results))
        if failed is not None:
            self._session.fail(failed)

    def _apply(self, decisions: Iterable[Commit | Lost], results: list[bool]) -> None:
        """Changes the model, and adds to `results` whether each turn is committed.

        Raises:
          SystemCallError: the last one cannot be logged.
        """
        for decision in decisions:
            assert self._model is not None
            if isinstance(decision, Lost):
                self._model.skip()
                results.append(False)
                if self._log is not None:
                    self._log.lost(decision.name, self._model.version)
            else:
                arrived = decision.arrived
                self._model.commit(arrived.total, len(arrived.names), len(decision.committed))
                results += decision.committed
                if self._log is not None:
                    self._log.committed(arrived, self._model.version)

    def _measured(self, host: str, given: float, planned: float) -> None:
        self._session.say(measured=pb.Measured(to=host, bytes_per_s=given, planned_per_s=planned))
