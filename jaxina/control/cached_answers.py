"""What the data plane said lately. Its threads answer between packets, so that questions cost the
jobs' rate; however often strangers ask, the data plane is asked seldom.
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
    """Answers by key. A question is asked at most every `every` seconds, and all questions together
    take at most a tenth of the time: where that is used up, the last answer stands. A failure is an
    answer too.
    """

    def __init__(self, clock: Callable[[], float], every: float = limits.ASK_EVERY):
        self._clock = clock
        self._every = every
        self._held: dict[Hashable, _Held] = {}
        self._time = Bucket(*limits.ASK_SHARE)

    def ask(self, key: Hashable, question: Callable[[], T], otherwise: T | None = None) -> T:
        """The question's answer, now or lately. `otherwise`, if given, is the answer while a question
        that was never asked has to wait.
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
        """When the question was last asked; minus infinity if never."""
        held = self._held.get(key)
        return float("-inf") if held is None else held.at

    def forget(self, key: Hashable) -> None:
        self._held.pop(key, None)


def _told(held: _Held) -> Any:
    if held.error is not None:
        raise type(held.error)(held.error.message)
    return held.answer
