"""What a member of an elastic team does: it follows the keeper from generation to generation, and computes steps."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Generator, Iterator
from typing import Any, Generic, TypeVar

import jax

from jaxina import _native, _override, _tracing_settings, config, job
from jaxina._team_sums import runs
from jaxina.control.interfaces import at_free_port, own_host_towards
from jaxina.control.tls import tls_of
from jaxina.control.topology import this_place
from jaxina.elastic import elastic_pb2 as pb
from jaxina.elastic.aggregation import Aggregation, OpenEngine, aggregation_of
from jaxina.elastic.attendance import Attendance
from jaxina.elastic.peer import Peer, fetch
from jaxina.elastic.state import copy_of, described, digest_of, layout_of
from jaxina.errors import (
    CollectiveTimeoutError,
    InvalidArgumentError,
    JaxinaError,
    MismatchError,
    NeverJoinedError,
    NotCarriedError,
    SharedMemoryError,
    ShutDownError,
    WorkerLostError,
    from_exception,
)

_log = logging.getLogger(__name__)

State = TypeVar("State")
Result = TypeVar("Result")

# These may be another member's fault. The keeper decides who goes on.
_OF_OTHERS = (
    CollectiveTimeoutError,
    MismatchError,
    NeverJoinedError,
    SharedMemoryError,
    ShutDownError,
    WorkerLostError,
)
_NEWS = 10.0  # seconds until the keeper knows that a member is gone from which the state was to come


@dataclasses.dataclass(frozen=True)
class Turn:
    """An attempt at a step, as the function of a step gets it.

    Attributes:
      step: the step's number.
      rank: this member's place among those that compute it, from 0.
      size: how many compute it.
      generation: how often the team was formed. It grows when members come or go.
    """

    step: int
    rank: int
    size: int
    generation: int


class _Over(Exception):
    """The generation is over."""


class Member(Generic[State, Result]):
    """A member of a team.

    Args:
      settings: this process's, with a keeper.
      function: computes a step, see `jaxina.elastic.steps`.
      state: the state before the step `first`.
      first: that step.
      until: the step before which the work is done; 0: it has no end.
      check_every: after each so many steps the members compare digests of their states; 0: never.

    Attributes:
      state: the state before the next step. It changes when a step is committed, or when it came from another member.
    """

    def __init__(
        self,
        settings: config.Configuration,
        function: Callable[[State, Turn], tuple[State, Result]],
        state: State,
        first: int,
        until: int,
        check_every: int,
    ):
        self.state = state
        self._settings = settings
        self._function = function
        self._step = first
        self._own: tuple[State, int] | None = (state, first)  # until the keeper knows that this member has the others'
        self._until = until
        self._check_every = check_every

    def run(self) -> Generator[tuple[Turn, Result], None, None]:
        """Joins the team, and yields the steps that count. Leaves when it ends. See `jaxina.elastic.steps`."""
        if _override.unavailable:
            raise NotCarriedError(f"no sum can be carried: {_override.unavailable}")
        if job.current() is not None:
            raise InvalidArgumentError("jaxina.init() is active: call jaxina.shutdown() before jaxina.elastic.steps()")
        if jax.default_backend() != "cpu":
            raise InvalidArgumentError(f"a team sums on CPU, not on {jax.default_backend()}: set JAX_PLATFORMS=cpu")
        settings = self._settings
        assert settings.keeper is not None
        tls, host = tls_of(settings), own_host_towards(settings.keeper, settings.interface)
        with contextlib.ExitStack() as stack:
            aggregation = aggregation_of(settings, host)
            stack.callback(aggregation.close)
            peer = at_free_port(
                settings.ports or (), host, lambda port: Peer(host, port, settings.token, tls, settings.timeout)
            )
            stack.callback(peer.close)
            attendance = Attendance(
                settings.keeper,
                self._join(aggregation, peer.address),
                settings.join_timeout,
                settings.token,
                tls,
                lambda code, message: _native.abort([], code, message),
            )
            stack.push(lambda _, error, __: attendance.leave(None if isinstance(error, GeneratorExit) else error))
            while self._goes_on():
                formed = attendance.formed()
                _log.info(
                    "generation %d: rank %d of %d, at step %d (%s)",
                    *(formed.generation, formed.rank, len(formed.members), formed.step, formed.why),
                )
                with contextlib.suppress(_Over):
                    self._get_state(formed, peer, attendance)
                    self._get_ready(formed, aggregation, peer, attendance)
                    yield from self._steps_of(formed, aggregation, attendance)

    def _goes_on(self) -> bool:
        return not self._until or self._step < self._until

    def _join(self, aggregation: Aggregation, address: str) -> pb.Join:
        place, shared = this_place(), self._settings.shared
        del shared["catch_all"]  # a team has none of XLA's own collectives
        terms = {name: str(value) for name, value in shared.items()} | aggregation.terms
        return pb.Join(
            host=place.host,
            pid=place.pid,
            address=address,
            terms=terms | {"state": described(self.state), "check_every": str(self._check_every)},
            step=self._step,
            until=self._until,
            server=aggregation.server,
        )

    def _get_state(self, formed: pb.Formed, peer: Peer, attendance: Attendance) -> None:
        """Gets the state with which a generation begins, if this member does not have it, and offers it to others."""
        if not formed.has_state:
            settings = self._settings
            try:
                self.state = fetch(formed, self.state, settings.timeout, settings.token, tls_of(settings))
            except JaxinaError as error:
                if attendance.is_over_within(formed.generation, _NEWS):
                    raise _Over from error
                raise
            self._step = formed.step
        elif self._step != formed.step:
            # The member that was furthest may have died before the keeper knew that this one has its state.
            if self._own is None or self._own[1] != formed.step:
                raise MismatchError(f"this member is at step {self._step}, but the team is at step {formed.step}")
            self.state, self._step = self._own
        peer.offer(formed, self.state)

    def _get_ready(self, formed: pb.Formed, aggregation: Aggregation, peer: Peer, attendance: Attendance) -> None:
        """Says that this member is ready, and waits until all are."""
        aggregation.prepare(formed)
        attendance.ready(formed.generation)
        goes = attendance.goes(formed.generation)
        peer.withdraw(formed)
        if not goes:
            raise _Over
        self._own = None

    def _steps_of(
        self, formed: pb.Formed, aggregation: Aggregation, attendance: Attendance
    ) -> Iterator[tuple[Turn, Result]]:
        """Computes steps until the generation is over."""
        is_over = functools.partial(attendance.is_over, formed.generation)
        with OpenEngine(self._settings, aggregation, formed, is_over):
            while self._goes_on() and not is_over():
                turn = Turn(self._step, formed.rank, len(formed.members), formed.generation)
                state, result = self._compute(formed, turn, attendance)
                _check(self.state, state)
                digest = b""
                if self._check_every and (turn.step + 1) % self._check_every == 0:
                    digest = digest_of(state)
                attendance.vote(formed.generation, turn.step, digest)
                if not attendance.committed(formed.generation, turn.step):
                    return
                self.state, self._step = state, turn.step + 1
                yield turn, result
            if self._goes_on():  # the keeper waits until all have stopped, also those that were between two steps
                attendance.failed(formed.generation, WorkerLostError("this member was told to stop"))

    def _compute(self, formed: pb.Formed, turn: Turn, attendance: Attendance) -> tuple[State, Result]:
        settings = self._settings
        precision = _tracing_settings.Precision(bits=settings.bits, rounding=settings.rounding)
        # A generation repeats no step, so both together are different for each attempt.
        number = (formed.secret + turn.step) % 2**64
        try:
            with _tracing_settings.precision(precision), runs.attempt(range(turn.size), turn.rank, number):
                computed = self._function(copy_of(self.state), turn)  # the old one stays, for a repetition
                jax.block_until_ready(computed)
                return computed
        except Exception as error:
            cause = from_exception(error)
            if isinstance(cause, _OF_OTHERS):
                attendance.failed(formed.generation, cause)  # also says that this member has stopped, if it was told to
                raise _Over from error
            if cause is None:
                raise
            raise cause from error


def _check(old: Any, new: Any) -> None:
    """Checks the state that the function of a step has returned.

    Raises:
      InvalidArgumentError: it does not look like the old one, or that one is gone.
    """
    if any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in jax.tree.leaves(old)):
        raise InvalidArgumentError(
            "the function of a step has donated the old state, which is needed if the step must be repeated: leave "
            "donate_argnums and donate_argnames out"
        )
    before, after = layout_of(old), layout_of(new)
    if before != after:
        raise InvalidArgumentError(
            "the function of a step has changed the state's structure, shapes or dtypes: "
            f"{before} before, {after} after"
        )
