"""Keeps the data plane's last answers, so that it is seldom asked, however often strangers ask.

The data plane's threads answer between packets, so each question slows the jobs down.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from jaxina.control import limits
from jaxina.control.bucket import Bucket
from jaxina.errors import JaxinaError

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class _Held:
    at: float
    answer: Any
    error: JaxinaError | None


class CachedAnswers:
    """The last answers, by key.

    A question is asked at most every `every` seconds, and all questions together take at most the share of time in
    `limits.ASK_SHARE`. When that is used up, the last answer is given again. A failure is an answer too.

    Args:
      clock: seconds that never go back.
      every: the least time between two askings of the same question, in seconds.
    """

    def __init__(self, clock: Callable[[], float], every: float = limits.ASK_EVERY):
        self._clock = clock
        self._every = every
        self._held: dict[Hashable, _Held] = {}
        self._time = Bucket(*limits.ASK_SHARE)

    def ask(self, key: Hashable, question: Callable[[], T], otherwise: T | None = None) -> T:
        """Asks the question, or gives its last answer again.

        Args:
          key: names the question.
          question: asks it.
          otherwise: the answer if there is no time to ask a question that was never asked. If it is None, such a
            question is asked anyway.

        Raises:
          JaxinaError: the answer is this error.
        """
        began = self._clock()
        held = self._held.get(key)
        too_soon = held is not None and began - held.at < self._every
        spent = self._time.level(began) <= 0 and (held is not None or otherwise is not None)
        if held is not None and (too_soon or spent):
            return _told(held)
        if otherwise is not None and spent:
            return otherwise
        answer, error = None, None
        try:
            answer = question()
        except JaxinaError as failure:
            error = failure
        now = self._clock()
        self._time.spend(now - began, now)
        held = self._held[key] = _Held(now, answer, error)
        return _told(held)

    def asked_at(self, key: Hashable) -> float:
        """When the question was last asked, by the clock; minus infinity if never."""
        held = self._held.get(key)
        return float("-inf") if held is None else held.at

    def forget(self, key: Hashable) -> None:
        """Drops the answer of a question that will not be asked again."""
        self._held.pop(key, None)


def _told(held: _Held) -> Any:
    if held.error is not None:
        raise type(held.error)(held.error.message)
    return held.answer
