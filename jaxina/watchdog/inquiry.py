"""How a process asks all others what they are doing, by way of the job's key-value store.

Questions are numbered from 0. The first process that sets a question's key has asked it; all others answer it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from jaxina.control.store import Store
from jaxina.watchdog.state import State

_LOOK_EVERY = 0.02  # seconds between two looks for answers


class Inquiry:
    """This process's part in all questions of a job.

    Args:
      store: the store.
      folder: starts all keys. No earlier job may have used it.
      rank: this process's number.
      processes: how many processes there are.
      state: makes this process's state, with the stacks.
    """

    def __init__(self, store: Store, folder: str, rank: int, processes: int, state: Callable[[], State]):
        self._store = store
        self._folder = folder
        self._rank = rank
        self._processes = processes
        self._state = state
        self._next = 0

    def answer(self) -> bool:
        """Answers the questions that others have asked since. Returns whether there was one."""
        asked = False
        while self._store.look(f"{self._folder}/question/{self._next}") is not None:
            self._store.claim(f"{self._folder}/answer/{self._next}/{self._rank}", self._state().to_text())
            self._next += 1
            asked = True
        return asked

    def ask(self, patience: float) -> dict[int, State] | None:
        """Asks all processes, and waits for their answers.

        Args:
          patience: seconds to wait for processes that do not answer.

        Returns:
          What the processes told, by number, this one's among them; None if another process has asked meanwhile.
        """
        number = self._next
        if not self._store.claim(f"{self._folder}/question/{number}", str(self._rank)):
            return None
        self._next += 1
        own = self._state()
        answers, deadline = f"{self._folder}/answer/{number}/", time.monotonic() + patience
        others = self._processes - 1
        while len(texts := self._store.look_below(answers)) < others and time.monotonic() < deadline:
            left = self._store.look_below(f"{self._folder}/left/")
            if len(texts.keys() | left.keys()) >= others:
                break
            time.sleep(_LOOK_EVERY)
        states = {int(rank): State.from_text(text) for rank, text in texts.items()}
        for rank in map(int, self._store.look_below(f"{self._folder}/left/")):
            states.setdefault(rank, State(rank, "", {}, (), gone=True))
        self._store.delete(answers)
        return {**states, self._rank: own}

    def leave(self) -> None:
        """Says that this process answers no more."""
        self._store.claim(f"{self._folder}/left/{self._rank}", "")
