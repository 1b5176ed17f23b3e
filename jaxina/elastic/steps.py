"""The steps of a member of an elastic team."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator
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
from jaxina.elastic.state import described, digest_of, layout_of, leaves_of
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
    """

    step: int
    rank: int
    size: int


@dataclasses.dataclass(frozen=True)
class Done(Generic[State, Result]):
    """A step that counts.

    Attributes:
      step: its number.
      state: the state after it, the same in all members.
      result: what the function returned besides, in this member.
      rank: this member's place among those that computed it.
      size: how many computed it.
      generation: how often the team had been formed. It grows when members come or go.
    """

    step: int
    state: State
    result: Result
    rank: int
    size: int
    generation: int


def steps(
    function: Callable[[State, Turn], tuple[State, Result]],
    state: State,
    *,
    first: int = 0,
    until: int | None = None,
    check_every: int = 100,
    keeper: str | None = None,
    aggregator: str | None = None,
    slots: int | None = None,
    block_size: int | None = None,
    blocks_per_chunk: int | None = None,
    bits: int | None = None,
    rounding: str | None = None,
    join_timeout: float | None = None,
    timeout: float | None = None,
    loss: float | None = None,
    loss_seed: int | None = None,
) -> Iterator[Done[State, Result]]:
    """Trains as a member of a team whose other members may die, leave and come.

    The member joins when the first step is asked for, and leaves when the iteration ends. A member that comes later than
    others begins at their next step, with their state. When a member is lost, the others repeat the step that was under
    way, without it, in the same process.

    A step counts for all members or for none. The function's new state is used only once all members have computed the
    step. So all members have the same state, bit for bit, after each step that they report.

    `jaxina.init` and `jax.distributed` are not needed, and `jaxina.init` must not be active.

    Args:
      function: computes a step: ``function(state, turn)`` returns the new state and a result of any kind, for example
        the loss. It may be called several times for one step. The new state must depend on nothing but the old state,
        `turn.step` and results of `jaxina.elastic.all_reduce`; else the members' states would differ. It must not donate
        the old state, which is needed if the step is repeated.
      state: the state before the first step: a pytree of JAX arrays, NumPy arrays and numbers. In a member that joins
        later only its structure counts.
      first: the number of the first step that this state is for, greater than 0 after a restart from a checkpoint. If
        the members differ, the state of the one with the greatest counts.
      until: the step before which the work is done. None: it goes on until all members end their iteration.
      check_every: after each so many steps the members compare digests of their states. 0: never.
      keeper: HOST:PORT of the keeper (``jaxina keeper``), else JAXINA_KEEPER.
      aggregator: "embedded" (shared memory of this host) or "direct" (by the members, over UDP). This and the following
        are as for `jaxina.init`, with the same variables and defaults.
      slots: pool size, in slots.
      block_size: block size, in elements.
      blocks_per_chunk: how many blocks one slot pass carries.
      bits: bits that a float of at most 32 bits takes on the wire.
      rounding: how 8 and 16 bits are rounded.
      join_timeout: how long to wait for a keeper that is not there yet, in seconds.
      timeout: how long one sum, or the transfer of the state, may take, in seconds.
      loss: share of arriving packets to drop, for experiments ("direct").
      loss_seed: seed that chooses the dropped packets.

    Yields:
      Each step that counts, in order.

    Raises:
      InvalidArgumentError: a value is not allowed, or `jaxina.init` is active, or the function donated the old state.
      SwitchUnreachableError: no keeper answers, or it is gone. Nobody can say then which steps count.
      NeverJoinedError: too few members came, or are left, and the keeper's patience is over.
      MismatchError: this member does not fit to the others: other settings, a state of other shapes, or another
        program; or the members' states differ.
      WorkerLostError: the others go on without this member, because it was silent or late; or nobody that had the state
        is left; or the transfer of the state was cut off.
      JobRejectedError: the team has finished.
      AuthenticationError: TLS is not set up alike.
      NotCarriedError: jaxina cannot take part in this version of JAX.
    """
    settings = config.resolve(
        keeper=keeper,
        aggregator=aggregator,
        slots=slots,
        block_size=block_size,
        blocks_per_chunk=blocks_per_chunk,
        bits=bits,
        rounding=rounding,
        join_timeout=join_timeout,
        timeout=timeout,
        loss=loss,
        loss_seed=loss_seed,
    )
    config.check_used(settings)
    if settings.keeper is None:
        raise InvalidArgumentError("no keeper is named: give keeper='HOST:PORT', or set JAXINA_KEEPER")
    if first < 0 or check_every < 0 or (until is not None and until <= first):
        raise InvalidArgumentError(
            f"first={first}, until={until}, check_every={check_every}: give 0 <= first < until and 0 <= check_every"
        )
    leaves_of(state)
    return _steps(_Member(settings, function, first, until, check_every), state)


@dataclasses.dataclass(frozen=True)
class _Member(Generic[State, Result]):
    settings: config.Configuration
    function: Callable[[State, Turn], tuple[State, Result]]
    first: int
    until: int | None
    check_every: int


class _Over(Exception):
    """The generation is over."""


def _steps(me: _Member[State, Result], state: State) -> Iterator[Done[State, Result]]:
    if _override.unavailable:
        raise NotCarriedError(f"no sum can be carried: {_override.unavailable}")
    if job.current() is not None:
        raise InvalidArgumentError("jaxina.init() is active: call jaxina.shutdown() before jaxina.elastic.steps()")
    if jax.default_backend() != "cpu":
        raise InvalidArgumentError(f"a team sums on CPU, not on {jax.default_backend()}: set JAX_PLATFORMS=cpu")
    settings = me.settings
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
            _join_of(me, state, aggregation, peer.address),
            settings.join_timeout,
            settings.token,
            tls,
            lambda code, message: _native.abort([], code, message),
        )
        stack.push(lambda _, error, __: attendance.leave(None if isinstance(error, GeneratorExit) else error))
        step = me.first
        while me.until is None or step < me.until:
            formed = attendance.formed()
            _log.info(
                "generation %d: rank %d of %d, at step %d (%s)",
                *(formed.generation, formed.rank, len(formed.members), formed.step, formed.why),
            )
            try:
                state = _prepare(me, formed, state, aggregation, peer, attendance)
                step = formed.step
                with OpenEngine(settings, aggregation, formed, lambda: attendance.is_over(formed.generation)):
                    while (me.until is None or step < me.until) and not attendance.is_over(formed.generation):
                        turn = Turn(step, formed.rank, len(formed.members))
                        state, result = _attempt(me, formed, state, turn, attendance)
                        step += 1
                        yield Done(turn.step, state, result, turn.rank, turn.size, formed.generation)
            except _Over:
                continue


def _join_of(me: _Member[State, Result], state: State, aggregation: Aggregation, address: str) -> pb.Join:
    place, shared = this_place(), me.settings.shared
    del shared["catch_all"]  # a team has none of XLA's own collectives
    return pb.Join(
        host=place.host,
        pid=place.pid,
        address=address,
        terms={**{name: str(value) for name, value in shared.items()}, **aggregation.terms, "state": described(state)},
        step=me.first,
        until=me.until or 0,
        server=aggregation.server,
    )


def _prepare(
    me: _Member[State, Result],
    formed: pb.Formed,
    state: State,
    aggregation: Aggregation,
    peer: Peer,
    attendance: Attendance,
) -> State:
    """Gets the generation's state, and waits until all members have it."""
    if formed.has_state:
        peer.offer(formed, state)
    else:
        try:
            state = fetch(formed, state, me.settings.timeout, me.settings.token, tls_of(me.settings))
        except JaxinaError as error:
            if attendance.is_over_within(formed.generation, _NEWS):
                raise _Over from error
            raise
    aggregation.prepare(formed)
    attendance.ready(formed.generation)
    goes = attendance.goes(formed.generation)
    peer.withdraw(formed)
    if not goes:
        raise _Over
    return state


def _attempt(
    me: _Member[State, Result], formed: pb.Formed, state: State, turn: Turn, attendance: Attendance
) -> tuple[State, Result]:
    """Computes a step, and waits until it counts."""
    precision = _tracing_settings.Precision(bits=me.settings.bits, rounding=me.settings.rounding)
    try:
        group = list(range(turn.size))
        # A generation repeats no step, so both together are different for each attempt.
        number = (formed.secret + turn.step) % 2**64
        with _tracing_settings.precision(precision), runs.attempt(group, turn.rank, number):
            changed, result = me.function(state, turn)
            jax.block_until_ready((changed, result))
    except Exception as error:
        cause = from_exception(error)
        if isinstance(cause, _OF_OTHERS):
            attendance.failed(formed.generation, cause)  # also says that this member has stopped, if it was told to
            raise _Over from error
        if cause is None:
            raise
        raise cause from error
    _check(state, changed)
    digest = b""
    if me.check_every and (turn.step + 1) % me.check_every == 0:
        digest = digest_of(changed)
    attendance.vote(formed.generation, turn.step, digest)
    if not attendance.committed(formed.generation, turn.step):
        raise _Over
    return changed, result


def _check(old: Any, new: Any) -> None:
    if any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in jax.tree.leaves(old)):
        raise InvalidArgumentError(
            "the function of a step has donated the old state, which is needed if the step must be repeated: leave "
            "donate_argnums and donate_argnames out"
        )
    before, after = layout_of(old), layout_of(new)
    if before != after:
        raise InvalidArgumentError(
            f"the function of a step has changed the state's structure, shapes or dtypes: {before} before, {after} after"
        )
