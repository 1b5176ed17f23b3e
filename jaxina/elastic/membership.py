"""The members of an elastic team, the rules that they live by, and what a newcomer must bring."""

from __future__ import annotations

import dataclasses

from jaxina._native import MAX_WORKERS
from jaxina.control import limits
from jaxina.elastic import elastic_pb2 as pb
from jaxina.errors import BY_CODE, InvalidArgumentError, JaxinaError, MismatchError, WorkerLostError, from_code


@dataclasses.dataclass(frozen=True)
class Rules:
    """How a team is kept.

    Attributes:
      first: how many members begin together.
      least: below this many members, the team waits for more.
      patience: how many seconds it waits for them.
      timeout: how many seconds a member has to become ready, and to compute a step after another one has.
      heartbeat_timeout: seconds of silence after which a member is taken for dead.
    """

    first: int
    least: int = 1
    patience: float = 60.0
    timeout: float = 300.0
    heartbeat_timeout: float = 20.0

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.first <= MAX_WORKERS:
            raise InvalidArgumentError(
                f"a team of {self.first} members cannot have at least {self.least}: give 1 <= least <= members <= "
                f"{MAX_WORKERS}"
            )


@dataclasses.dataclass
class Member:
    """One member, as the keeper knows it."""

    number: int
    join: pb.Join
    last_heard: float
    has_state: bool = False  # that of `Roster.step`
    has_committed: bool = False  # took part in a step that counts

    def __str__(self) -> str:
        return f"member {self.number} ({self.place})"

    @property
    def place(self) -> str:
        return f"host {self.join.host}, pid {self.join.pid}"


def check(join: pb.Join) -> None:
    """Checks what a newcomer says of itself.

    Raises:
      InvalidArgumentError: a text is too long.
    """
    for what, text, most in (
        ("host", join.host, limits.MAX_HOST),
        ("address", join.address, limits.MAX_HOST),
        *((f"term {name[:32]!r}", name + value, limits.MAX_TEXT) for name, value in join.terms.items()),
    ):
        if len(text) > most:
            raise InvalidArgumentError(f"a member's {what} has more than {most} characters")


def compare(terms: dict[str, str], theirs: dict[str, str], who: str) -> None:
    """Compares a newcomer's terms with the team's.

    Raises:
      MismatchError: they differ.
    """
    for name in sorted({*terms, *theirs}):
        if terms.get(name) != theirs.get(name):
            raise MismatchError(
                f"the team has {name}={terms.get(name)}, but {who} has {theirs.get(name)}: start all members with the "
                "same program, arguments, JAXINA_* variables and installed packages"
            )


def error_of(code: str, message: str) -> JaxinaError:
    """The error that a member tells of. A code that is none becomes WORKER_LOST."""
    return from_code(code if code in BY_CODE else WorkerLostError.code, message[: limits.MAX_TEXT])
