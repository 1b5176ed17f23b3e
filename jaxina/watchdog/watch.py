"""The thread that notices that this process waits for too long, and answers others that do."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping

from jaxina.control.store import Store
from jaxina.errors import SystemCallError
from jaxina.watchdog.findings import Findings, find, text
from jaxina.watchdog.inquiry import Inquiry
from jaxina.watchdog.state import State, Wait

_log = logging.getLogger("jaxina")

# How often the watchdog looks, as a share of the time after which a collective is late; and the bounds in seconds.
_LOOKS, _MOST_OFTEN, _LEAST_OFTEN = 1 / 40, 0.025, 5.0
# How long to wait for an answer, in times between two looks, and at least, in seconds.
_ANSWER_WITHIN, _LEAST_PATIENCE = 1.5, 1.0


class Watchdog:
    """Watches the collectives of one process. It reports each that is late once, and again whenever its time doubles.

    Args:
      store: the job's key-value store.
      folder: starts the keys in the store. No earlier job may have used it.
      rank: this process's number.
      processes: how many processes there are.
      late_after: after how many seconds a collective is late; infinity: this process never asks, but answers.
      timeout: after how many seconds a program is late that all processes have entered, since it may compute for long.
        Also for how many seconds a process may compile before it is late.
      state: makes this process's state; the argument says whether with the stacks.
      ended: returns the processes that are known to have ended.
      tell: is called with what was found, in words.
    """

    def __init__(
        self,
        store: Store,
        folder: str,
        rank: int,
        processes: int,
        *,
        late_after: float,
        timeout: float,
        state: Callable[[bool], State],
        ended: Callable[[], set[int]],
        tell: Callable[[str], None],
    ):
        self._late_after = late_after
        self._timeout = timeout
        self._rank = rank
        self._state = state
        self._ended = ended
        self._tell = tell
        self._inquiry = Inquiry(store, folder, rank, processes, lambda: state(True))
        every = min(max(late_after * _LOOKS, _MOST_OFTEN), _LEAST_OFTEN)
        self._every = every
        self._patience = max(_ANSWER_WITHIN * every, _LEAST_PATIENCE)
        self._ask_again: dict[tuple[str, int], float] = {}  # the age, in seconds, at which to ask again about a wait
        self._told: dict[tuple[str, int], Findings] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jaxina-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread. From then on this process answers no questions."""
        self._stopping.set()
        self._thread.join(self._patience + self._every)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._every):
                if self._inquiry.answer():
                    self._postpone()
                self._look()
            self._inquiry.leave()
        except SystemCallError as error:
            _log.info("the watchdog ends: %s", error)

    def _look(self) -> None:
        waits = self._state(False).waits if self._late_after < math.inf else ()
        here = {wait.key for wait in waits}
        for key in [key for key in self._ask_again if key not in here]:
            del self._ask_again[key]
        for key in [key for key in self._told if key not in here]:
            self._goes_on(self._told.pop(key))
        late = [one for one in waits if one.seconds >= self._ask_again.get(one.key, self._late_after)]
        if not late:
            return
        states = self._inquiry.ask(self._patience)
        if states is None:
            self._inquiry.answer()
            self._postpone()
            return
        still = {wait.key for wait in self._state(False).waits}
        found = [(wait, find(wait, states)) for wait in late if wait.key in still]
        bad = [(wait, findings) for wait, findings in found if self._is_bad(wait, findings, states)]
        for wait, findings in found:
            self._ask_again[wait.key] = self._later(wait, findings, (wait, findings) in bad)
        if bad:
            wait, findings = next((one for one in bad if one[1].late), bad[0])
            self._told[wait.key] = findings
            self._tell(text(findings, states, self._ended()))

    def _is_bad(self, wait: Wait, findings: Findings, states: Mapping[int, State]) -> bool:
        """Whether it is time to tell somebody."""
        if wait.seconds >= self._timeout:
            return True
        if not findings.late:
            return wait.exact
        compiling = [rank in states and states[rank].compiling is not None for rank in findings.late]
        return not all(compiling)

    def _later(self, wait: Wait, findings: Findings, bad: bool) -> float:
        """The age of the wait, in seconds, at which to ask again."""
        if bad:
            return 2 * wait.seconds
        if findings.late:  # they compile
            return wait.seconds + self._late_after / 10
        return self._timeout

    def _postpone(self) -> None:
        """Another process has asked: what this process waits for since about as long need not be asked again soon."""
        for wait in self._state(False).waits:
            if wait.seconds >= self._late_after / 2:
                self._ask_again[wait.key] = max(2 * wait.seconds, self._late_after)

    def _goes_on(self, findings: Findings) -> None:
        self._tell(f"rank {self._rank} goes on: {findings.wait.what} has finished")
