"""What the keeper of an elastic team decides: who takes part in a step, and whether a step counts.

It is a state machine without clock, sockets or processes. Its methods get what happened, and add to `outbox` what is to
be told to whom.

**Generations.** The members of a generation stay the same from its first step to its last. It is formed when enough
members are there, when a member is lost, and at the end of a step if somebody waits to join. All its members say that
they are ready, and then all are told to go.

**Steps.** A step counts if all members of the generation have computed it. They say so, and go on only when they are
told that it is committed. So there is one place where a step either counts for all or for nobody. If a member is lost
before all have computed the step, the generation is over, and the survivors repeat the step in the next one, from the
state that they had before it. A member whose stream breaks is out; it cannot go on by itself. So all members of a
generation have the state of the same committed step, and got there by the same commits.

**Newcomers** get the state of that step from a member that has it, before they are ready.
"""

from __future__ import annotations

import collections
import enum
import secrets
from collections.abc import Callable, Iterable

from jaxina._native import MAX_WORKERS
from jaxina.control.wording import listed
from jaxina.elastic import elastic_pb2 as pb
from jaxina.elastic import membership
from jaxina.elastic.membership import Member, Rules
from jaxina.errors import (
    CollectiveTimeoutError,
    JaxinaError,
    JobRejectedError,
    MismatchError,
    NeverJoinedError,
    TooManyWorkersError,
    WorkerLostError,
    from_code,
)

GRACE = 5.0
"""Seconds that a member has to stop after another one's sum has failed. It has been told, and its sums fail at once."""

MOST_RETRIES = 3
"""How often the same members repeat a step that failed although nobody was lost."""


class Phase(enum.Enum):
    GATHERING = "waits for members"
    FORMING = "waits until all members are ready"
    RUNNING = "runs"
    FINISHED = "has finished"
    FAILED = "has failed"


class Roster:
    """The members of one team.

    Args:
      rules: how it is kept.
      draw: draws the secrets of generations: ``draw(bits)``.

    Attributes:
      outbox: the messages to send, each with the number of the member that gets it. The caller takes them out.
      members: all members that are there, by number.
      current: the numbers of the generation's members, by rank.
      step: the next step; all before it are committed.
    """

    def __init__(self, rules: Rules, draw: Callable[[int], int] = secrets.randbits):
        self.rules = rules
        self.outbox: collections.deque[tuple[int, pb.KeeperMessage]] = collections.deque()
        self.members: dict[int, Member] = {}
        self.current: list[int] = []
        self.generation = 0
        self.step = 0
        self.phase = Phase.GATHERING
        self.why = "the team begins"
        self.error: JaxinaError | None = None
        self._draw = draw
        self._terms: dict[str, str] = {}
        self._until = 0
        self._joined = 0  # how many ever did
        self._begun = False  # whether a generation was formed
        self._counted = False  # whether a step has been committed
        self._deadline: float | None = None
        self._ready: set[int] = set()
        self._votes: dict[int, bytes] = {}
        self._failures: dict[int, JaxinaError] = {}
        self._retries = 0

    # ---- what members say

    def join(self, join: pb.Join, now: float) -> Member:
        """Takes a member in. It takes part from the next step's beginning.

        Raises:
          JobRejectedError: the team has ended.
          MismatchError: it does not fit to the others: other settings, or a state of other shapes.
          TooManyWorkersError: there are as many members as a sum can have.
          InvalidArgumentError: its message is malformed.
        """
        if self.phase in (Phase.FINISHED, Phase.FAILED):
            how = "has finished its steps" if self.error is None else f"has ended: {self.error.message}"
            raise JobRejectedError(f"the team {how}. Start another keeper for another team")
        membership.check(join)
        if len(self.members) == MAX_WORKERS:
            raise TooManyWorkersError(f"the team has {MAX_WORKERS} members already, which is the most that can sum")
        terms = {**join.terms, "until": str(join.until)}
        if self.members or self._begun:
            membership.compare(self._terms, terms, f"host {join.host}, pid {join.pid}")
        else:
            self._terms, self._until = terms, join.until
        member = Member(self._joined, join, now)
        self._joined += 1
        self.members[member.number] = member
        self._tell(
            [member.number],
            joined=pb.Joined(number=member.number, heartbeat_timeout_s=self.rules.heartbeat_timeout),
        )
        if self.phase is Phase.GATHERING:
            if self._deadline is None:
                self._deadline = now + self.rules.patience
            self._gather(now)
        return member

    def heard(self, number: int, now: float) -> None:
        """Notes that a member is alive."""
        if number in self.members:
            self.members[number].last_heard = now

    def ready(self, number: int, generation: int, now: float) -> None:
        """A member has the state, and can sum."""
        if not self._takes_part(number, generation) or self.phase is not Phase.FORMING:
            return
        self._ready.add(number)
        self.members[number].has_state = True
        if len(self._ready) == len(self.current):
            self.phase, self._deadline = Phase.RUNNING, None
            self._tell(self.current, go=pb.Go(generation=generation))

    def vote(self, number: int, generation: int, step: int, digest: bytes, now: float) -> None:
        """A member has computed the step."""
        if not self._takes_part(number, generation) or self.phase is not Phase.RUNNING or number in self._failures:
            return
        if step != self.step:
            self.lost(number, f"voted for step {step} while the team is at step {self.step}", now)
            return
        if not self._votes and not self._failures:
            self._deadline = now + self.rules.timeout
        self._votes[number] = digest
        if len(self._votes) == len(self.current):
            self._commit(now)
        else:
            self._retry_if_all_stopped(now)

    def failed(self, number: int, generation: int, error: JaxinaError, now: float) -> None:
        """A member could not compute the step, for a reason that may be another member."""
        if not self._takes_part(number, generation) or self.phase is not Phase.RUNNING or number in self._failures:
            return
        if not self._failures:
            self._deadline = now + GRACE
            others = [other for other in self.current if other != number]
            self._tell(others, stopped=pb.Stopped(generation=generation, code=error.code, message=error.message))
        self._failures[number] = error
        self._retry_if_all_stopped(now)

    def leave(self, number: int, error: JaxinaError | None, now: float) -> None:
        """A member leaves, in order or with an error."""
        if error is None and list(self.members) == [number]:
            self.phase, self._deadline = Phase.FINISHED, None
        self._remove([number], "left" if error is None else f"left with {error}", now)

    def lost(self, number: int, how: str, now: float) -> None:
        """A member was lost. `how` says what happened, to follow its name."""
        self._remove([number], how, now)

    def tick(self, now: float) -> None:
        """Looks at the deadlines."""
        allowed = self.rules.heartbeat_timeout
        silent = [member.number for member in self.members.values() if now - member.last_heard > allowed]
        if silent:
            self._expel(silent, f"was silent for more than {allowed:g} s (--heartbeat-timeout)", WorkerLostError, now)
        if self._deadline is None or now <= self._deadline:
            return
        self._deadline = None
        if self.phase is Phase.GATHERING:
            self._gather_no_longer(now)
        elif self.phase is Phase.FORMING:
            late = [number for number in self.current if number not in self._ready]
            self._expel(late, f"was not ready within {self.rules.timeout:g} s", WorkerLostError, now)
        elif self.phase is Phase.RUNNING:
            late = self._not_stopped()
            cause = next(iter(self._failures.values()), None)
            if cause is None and self._newcomers_sum_less(late):
                self._expel_who_sums_less(now)
                return
            how = f"did not compute step {self.step} within {self.rules.timeout:g} s after another member had"
            if cause is not None:
                how = f"did not stop within {GRACE:g} s after a sum of the others had failed ({cause})"
            self._expel(late, how, WorkerLostError, now)

    def end(self, error: JaxinaError) -> None:
        """Ends the team with an error for all its members."""
        if self.phase is Phase.FAILED:
            return
        self.phase, self.error, self._deadline = Phase.FAILED, error, None
        self._tell(self.members, ended=pb.Ended(code=error.code, message=error.message))

    # ---- what is decided

    def _gather(self, now: float) -> None:
        if len(self.members) >= (self.rules.least if self._begun else self.rules.first):
            self._form(now)

    def _gather_no_longer(self, now: float) -> None:
        there, rules = len(self.members), self.rules
        if there >= rules.least:
            self._form(now)
            return
        if self._begun:
            self.end(
                NeverJoinedError(
                    f"{there} member{'s are' if there != 1 else ' is'} left, at least {rules.least} are needed, and "
                    f"nobody came within {rules.patience:g} s ({self.why})"
                )
            )
        else:
            self.end(
                NeverJoinedError(
                    f"{there} of {rules.first} members came within {rules.patience:g} s, and at least {rules.least} "
                    "are needed. Start the others sooner, or raise the keeper's --patience"
                )
            )

    def _form(self, now: float) -> None:
        self.current = sorted(self.members)
        mine = [self.members[number] for number in self.current]
        self._begun = True
        if not self._counted and not any(member.has_state for member in mine):
            # Whoever has come furthest has the state, for example from a checkpoint.
            furthest = max(mine, key=lambda member: (member.join.step, -member.number))
            furthest.has_state, self.step = True, furthest.join.step
        source = next((rank for rank, member in enumerate(mine) if member.has_state), None)
        if source is None:
            self.end(WorkerLostError(f"all members that had the state of step {self.step} are gone ({self.why})"))
            return
        self.generation += 1
        self.phase, self._deadline = Phase.FORMING, now + self.rules.timeout
        self._ready, self._votes, self._failures = set(), {}, {}
        formed = pb.Formed(
            generation=self.generation,
            step=self.step,
            source=source,
            job=self._draw(31) + 1,
            secret=self._draw(64),
            segment=f"jaxina-{self._draw(64):016x}",
            why=self.why,
            members=[
                pb.FormedMember(
                    number=member.number,
                    place=member.place,
                    address=member.join.address,
                    server=member.join.server if member.join.HasField("server") else None,
                )
                for member in mine
            ],
        )
        for rank, member in enumerate(mine):
            own = pb.Formed()
            own.CopyFrom(formed)
            own.rank, own.has_state = rank, member.has_state
            self._tell([member.number], formed=own)

    def _commit(self, now: float) -> None:
        digests = {digest for digest in self._votes.values() if digest}
        if len(digests) > 1:
            of = {digest: [n for n in self.current if self._votes[n] == digest] for digest in sorted(digests)}
            self.end(
                MismatchError(
                    f"after step {self.step} the members have different states: members "
                    f"{' and '.join(listed(numbers) for numbers in of.values())} differ. The function of a step must "
                    "compute the new state from the old one and from sums over all members only"
                )
            )
            return
        self._tell(self.current, committed=pb.Committed(generation=self.generation, step=self.step))
        for number in self.current:
            self.members[number].has_committed = True
        self.step, self._counted = self.step + 1, True
        self._votes, self._retries, self._deadline = {}, 0, None
        if self._until and self.step >= self._until:
            self.phase = Phase.FINISHED
            error = JobRejectedError("the team has finished its steps")
            self._tell(self._waiting(), ended=pb.Ended(code=error.code, message=error.message))
        elif waiting := self._waiting():
            self.why = f"{' and '.join(str(self.members[number]) for number in waiting)} joined"
            self._form(now)

    def _retry_if_all_stopped(self, now: float) -> None:
        if not self._failures or self._not_stopped():
            return
        error = next(iter(self._failures.values()))
        if error.code == MismatchError.code:
            newcomers = self._newcomers(self.current)
            if 0 < len(newcomers) < len(self.current):
                self._expel(newcomers, f"does not run what the others run: {error.message}", MismatchError, now)
            else:
                self.end(error)
            return
        if error.code == CollectiveTimeoutError.code and self._newcomers_sum_less(self._failures):
            self._expel_who_sums_less(now)
            return
        self._retries += 1
        if self._retries > MOST_RETRIES:
            self.end(from_code(error.code, f"step {self.step} failed {self._retries} times: {error.message}"))
            return
        self.why = f"step {self.step} failed: {error}"
        self._form(now)

    def _remove(self, numbers: list[int], how: str, now: float) -> None:
        """Removes members, and goes on with the others."""
        gone = [self.members.pop(number) for number in numbers if number in self.members]
        if self.phase in (Phase.FINISHED, Phase.FAILED):
            return
        why = f"{' and '.join(map(str, gone))} {how}"
        if not self.members:
            if self._begun:
                self.end(WorkerLostError(f"no member is left ({why})"))
            else:
                self._deadline = None  # the next member has all the patience
            return
        if not any(member.number in self.current for member in gone):
            return
        self._retries, self.why = 0, why
        if len(self.members) >= self.rules.least:
            self._form(now)
        else:
            self.phase, self._deadline = Phase.GATHERING, now + self.rules.patience
            self._tell(
                self.members,
                stopped=pb.Stopped(generation=self.generation, code=WorkerLostError.code, message=self.why),
            )
            self.current = []

    def _newcomers_sum_less(self, waiting: Iterable[int]) -> bool:
        """Whether newcomers alone have computed the step, and members from before are still in it. A sum needs
        all members, so those wait for one that the newcomers do not make."""
        computed = list(self._votes)
        return bool(computed) and self._newcomers(computed) == computed and self._newcomers(waiting) != list(waiting)

    def _expel_who_sums_less(self, now: float) -> None:
        how = f"does not run what the others run: it has computed step {self.step}, and they wait for its sums"
        self._expel(list(self._votes), how, MismatchError, now)

    def _expel(self, numbers: list[int], how: str, error: type[JaxinaError], now: float) -> None:
        for number in numbers:
            ended = error(f"{self.members[number]} {how}, so the others go on without it")
            self._tell([number], ended=pb.Ended(code=ended.code, message=ended.message))
        self._remove(numbers, how, now)

    # ---- inside

    def _takes_part(self, number: int, generation: int) -> bool:
        """Whether the message of a member is about this generation. Others came too late, and say nothing."""
        running = self.phase in (Phase.FORMING, Phase.RUNNING)
        return running and generation == self.generation and number in self.current

    def _waiting(self) -> list[int]:
        return [number for number in sorted(self.members) if number not in self.current]

    def _newcomers(self, numbers: Iterable[int]) -> list[int]:
        """Those of the members that have taken part in no step that counts."""
        return [number for number in numbers if not self.members[number].has_committed]

    def _not_stopped(self) -> list[int]:
        return [number for number in self.current if number not in self._votes and number not in self._failures]

    def _tell(self, numbers: Iterable[int], **message: object) -> None:
        for number in numbers:
            self.outbox.append((number, pb.KeeperMessage(**message)))  # type: ignore[arg-type]
