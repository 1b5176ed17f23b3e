"""What is still free on each link over time.

A link has a rate, and a profile of what transfers have reserved on it: piecewise constant, in whole nanoseconds. All
arithmetic is in integers, so that no part of a link's time can be reserved twice by rounding.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Sequence

from jaxina.errors import InvalidArgumentError
from jaxina.fabric.network import Path

NANOSECONDS = 1_000_000_000
"""A second."""

_BEGINNING = -1
_NEVER = 1 << 100


@dataclasses.dataclass(frozen=True, slots=True)
class Reservation:
    """A transfer's share of its path over time.

    Attributes:
      path: its links.
      size: bytes that it moves.
      start: when it may begin, in nanoseconds.
      end: when its last byte has arrived, in nanoseconds.
      pieces: (from, to, bytes per second), in order and without overlap. Empty if the path is.
    """

    path: Path
    size: int
    start: int
    end: int
    pieces: tuple[tuple[int, int, int], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Profile:
    """What is reserved on a link from each time on, until the next. The first time is before all others."""

    times: list[int]
    reserved: list[int]

    def with_pieces(self, pieces: Sequence[tuple[int, int, int]], sign: int) -> _Profile:
        """The profile with each piece's rate added, or taken away if the sign is negative."""
        if not pieces:
            return self
        begin, end = pieces[0][0], pieces[-1][1]
        first = bisect.bisect_right(self.times, begin) - 1
        behind = bisect.bisect_right(self.times, end)  # the first part that stays as it is
        times, reserved = self.times[first:behind], self.reserved[first:behind]
        for piece_begin, piece_end, rate in pieces:
            i = _cut(times, reserved, piece_begin)
            last = _cut(times, reserved, piece_end)
            while i < last:
                reserved[i] += sign * rate
                assert reserved[i] >= 0, "more was released than reserved"
                i += 1
        before = self.reserved[first - 1] if first > 0 else None
        kept = [i for i, r in enumerate(reserved) if r != (reserved[i - 1] if i > 0 else before)]
        return _Profile(
            self.times[:first] + [times[i] for i in kept] + self.times[behind:],
            self.reserved[:first] + [reserved[i] for i in kept] + self.reserved[behind:],
        )

    def since(self, time: int) -> _Profile:
        """The profile without what was before the time."""
        i = bisect.bisect_right(self.times, time) - 1
        return _Profile([_BEGINNING, *self.times[i + 1 :]], self.reserved[i:])


def _cut(times: list[int], reserved: list[int], time: int) -> int:
    """Makes the time a border of the profile. Returns its place."""
    i = bisect.bisect_left(times, time)
    if i == len(times) or times[i] != time:
        times.insert(i, time)
        reserved.insert(i, reserved[i - 1])
    return i


class Calendar:
    """The links' rates and reservations.

    Args:
      rates: each link's rate, in bytes per second.
    """

    def __init__(self, rates: Sequence[int]) -> None:
        self._rates = list(rates)
        self._profiles = [_Profile([_BEGINNING], [0]) for _ in rates]

    def fork(self) -> Calendar:
        """A calendar to try something on: what is reserved in it is not reserved here."""
        other = Calendar.__new__(Calendar)
        other._rates = list(self._rates)
        other._profiles = list(self._profiles)
        return other

    def cleared(self) -> Calendar:
        """A calendar with the same rates, in which nothing is reserved."""
        return Calendar(self._rates)

    def rate(self, link: int) -> int:
        """The link's rate, in bytes per second."""
        return self._rates[link]

    def set_rate(self, link: int, rate: int) -> None:
        """The link has another rate from now on. What is reserved stays, even if it is more than the rate."""
        if rate < 0:
            raise InvalidArgumentError(f"a rate of {rate} bytes per second is negative")
        self._rates[link] = rate

    def reserved(self, link: int, time: int) -> int:
        """What is reserved on a link at a time, in bytes per second."""
        profile = self._profiles[link]
        return profile.reserved[bisect.bisect_right(profile.times, time) - 1]

    def forget_before(self, time: int) -> None:
        """Drops what is known of the past."""
        self._profiles = [profile.since(time) for profile in self._profiles]

    def end(self, path: Path, size: int, start: int, latest: int | None = None) -> int | None:
        """When a transfer would end that takes all that is free on its path: the paper's t_end, figure 4.

        Args:
          path: its links.
          size: bytes.
          start: when it may begin, in nanoseconds. Not negative.
          latest: a later end is not of interest.

        Returns:
          The time in nanoseconds, rounded up. None if it is after `latest`, or if a link of the path never has anything
          free again.
        """
        pieces = self._pieces(path, size, start, _NEVER if latest is None else latest)
        if pieces is None:
            return None
        return pieces[-1][1] if pieces else start

    def reserve(self, path: Path, size: int, start: int, latest: int | None = None) -> Reservation | None:
        """Reserves what `end` looked at. Returns None, and changes nothing, where `end` does."""
        pieces = self._pieces(path, size, start, _NEVER if latest is None else latest)
        if pieces is None:
            return None
        for link in path:
            self._profiles[link] = self._profiles[link].with_pieces(pieces, 1)
        return Reservation(path, size, start, pieces[-1][1] if pieces else start, tuple(pieces))

    def release(self, reservation: Reservation, since: int = 0) -> None:
        """Takes back what a reservation has from a time on."""
        rest = [(max(begin, since), end, rate) for begin, end, rate in reservation.pieces if end > since]
        for link in reservation.path:
            self._profiles[link] = self._profiles[link].with_pieces(rest, -1)

    def _pieces(self, path: Path, size: int, start: int, latest: int) -> list[tuple[int, int, int]] | None:
        pieces: list[tuple[int, int, int]] = []
        left = size * NANOSECONDS  # in bytes per second times nanoseconds
        if not path or left <= 0:
            return pieces if start <= latest else None
        links = [self._profiles[i] for i in path]
        places = [bisect.bisect_right(link.times, start) - 1 for link in links]
        lasts = [len(link.times) - 1 for link in links]
        rates = [self._rates[i] for i in path]
        time = start
        while True:
            free = _NEVER
            until = _NEVER
            for link, place, last, rate in zip(links, places, lasts, rates, strict=True):
                rest = rate - link.reserved[place]
                free = min(free, rest)
                if place < last:
                    until = min(until, link.times[place + 1])
            if free > 0:
                end = time - (-left // free)
                if end <= until:
                    pieces.append((time, end, free))
                    return pieces if end <= latest else None
                pieces.append((time, until, free))
                left -= free * (until - time)
            if until >= latest:
                return None
            time = until
            for k, link in enumerate(links):
                if places[k] < lasts[k] and link.times[places[k] + 1] == until:
                    places[k] += 1

    def first_free(self, link: int, start: int) -> int | None:
        """When the link has something free for the first time from `start` on. None if never again."""
        rate, profile = self._rates[link], self._profiles[link]
        i = bisect.bisect_right(profile.times, start) - 1
        while i < len(profile.times) and profile.reserved[i] >= rate:
            i += 1
        return None if i == len(profile.times) else max(start, profile.times[i])
