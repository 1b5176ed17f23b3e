"""What one process tells when another asks who is late. It travels as JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import Any


@dataclasses.dataclass(frozen=True)
class Wait:
    """A collective, or a run of a program with collectives, that a process has entered and that has not finished.

    Attributes:
      stream: names the sequence it belongs to. The processes of a stream go through it in the same order.
      members: the processes of the stream.
      number: its number in the stream, from 1.
      what: what it is, in words.
      seconds: how long ago this process entered it.
      exact: whether it is a collective. Otherwise it is a program, which may compute for long before its collectives.
    """

    stream: str
    members: tuple[int, ...]
    number: int
    what: str
    seconds: float
    exact: bool

    @property
    def key(self) -> tuple[str, int]:
        """Which wait it is: the same as long as it lasts."""
        return self.stream, self.number


@dataclasses.dataclass(frozen=True)
class Stack:
    """The Python stack of a thread.

    Attributes:
      thread: the thread's name.
      lines: the frames, outermost first, each as one line.
    """

    thread: str
    lines: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class State:
    """What a process is doing.

    Attributes:
      rank: the process's number.
      place: where it runs, in words.
      entered: how many collectives it has entered, by stream.
      waits: what it waits for: of each stream the oldest.
      compiling: for how many seconds it has been compiling a program; None if it compiles none.
      stacks: of its main thread, and of threads of XLA's that run Python code of the program.
      gone: whether it has left the job.
    """

    rank: int
    place: str
    entered: dict[str, int]
    waits: tuple[Wait, ...]
    compiling: float | None = None
    stacks: tuple[Stack, ...] = ()
    gone: bool = False

    def to_text(self) -> str:
        """Writes the state as JSON."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_text(text: str) -> State:
        """Reads what `to_text` wrote."""
        data: dict[str, Any] = json.loads(text)
        waits = tuple(Wait(**{**wait, "members": tuple(wait["members"])}) for wait in data.pop("waits"))
        stacks = tuple(Stack(one["thread"], tuple(one["lines"])) for one in data.pop("stacks"))
        return State(**data, waits=waits, stacks=stacks)
