"""`jaxina.elastic.steps`: training as a member of a team."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from jaxina import config
from jaxina.elastic.member import Member, Turn
from jaxina.elastic.state import leaves_of
from jaxina.errors import InvalidArgumentError

State = TypeVar("State")
Result = TypeVar("Result")


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

    The member joins when the first step is asked for, and leaves when the iteration ends. A member that comes later
    than others begins at their next step, with their state. When a member is lost, the others repeat the step that was
    under way, without it, in the same process.

    A step counts for all members or for none. The function's new state is used only once all members have computed the
    step. So all members have the same state, bit for bit, after each step that they report.

    `jaxina.init` and `jax.distributed` are not needed, and `jaxina.init` must not be active.

    Args:
      function: computes a step: ``function(state, turn)`` returns the new state and a result of any kind, for example
        the loss. It may be called several times for one step. The new state must depend on nothing but the old state,
        `turn.step` and results of `jaxina.elastic.all_reduce`; else the members' states would differ. It must not
        donate the old state, which is needed if the step is repeated.
      state: the state before the first step: a pytree of JAX arrays, NumPy arrays and numbers. In a member that joins
        later only its structure counts.
      first: the number of the first step that this state is for, greater than 0 after a restart from a checkpoint. If
        the members differ, the state of the one with the greatest counts.
      until: the step before which the work is done. None: it goes on until all members end their iteration.
      check_every: after each so many steps the members compare digests of their states. 0: never. The
        same in all members.
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
    return _reported(Member(settings, function, state, first, until or 0, check_every))


def _reported(member: Member[State, Result]) -> Iterator[Done[State, Result]]:
    with contextlib.closing(member.run()) as turns:
        for turn, result in turns:
            yield Done(turn.step, member.state, result, turn.rank, turn.size, turn.generation)
