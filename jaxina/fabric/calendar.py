"""What is still free on each link over time.

A link has a rate, and a profile of what transfers have reserved on it: piecewise constant, in whole nanoseconds. All
arithmetic is in integers, so that no part of a link's time can be reserved twice by rounding.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
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
        times, reserved = self.times, self.reserved
        i = first = bisect.bisect_right(times, pieces[0][0]) - 1  # i: the part that the walk is in
        last = len(times) - 1
        borders = [(times[i], reserved[i])]  # from each time on, this is reserved; of one time, the last counts
        for begin, end, rate in pieces:
            while i < last and times[i + 1] <= begin:
                i += 1
                borders.append((times[i], reserved[i]))
            time = begin
            while time < end:
                part_end = times[i + 1] if i < last else end
                level = reserved[i] + sign * rate
                assert level >= 0, "more was released than reserved"
                borders.append((time, level))
                if end < part_end or i == last:
                    borders.append((end, reserved[i]))
                    break
                i += 1
                time = part_end
                borders.append((time, reserved[i]))
        if i < last:
            borders.append((times[i + 1], reserved[i + 1]))
        new_times, new_reserved = times[:first], reserved[:first]
        before = new_reserved[-1] if first else None
        for (time, level), (following, _) in itertools.pairwise([*borders, (_NEVER, 0)]):
            if time != following and level != before:
                new_times.append(time)
                new_reserved.append(level)
                before = level
        return _Profile(new_times + times[i + 2 :], new_reserved + reserved[i + 2 :])

    def since(self, time: int) -> _Profile:
        """The profile without what was before the time."""
        i = bisect.bisect_right(self.times, time) - 1
        return _Profile([_BEGINNING, *self.times[i + 1 :]], self.reserved[i:])


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
        walks = []  # of each link: its times, what is reserved from each on, its rate
        places = []
        frees = []  # what each link has free now
        borders = []  # when that changes
        for link in path:
            times, reserved, rate = self._profiles[link].times, self._profiles[link].reserved, self._rates[link]
            place = bisect.bisect_right(times, start)
            walks.append((times, reserved, rate))
            places.append(place)
            frees.append(rate - reserved[place - 1])
            borders.append(times[place] if place < len(times) else _NEVER)
        time = start
        while True:
            free, until = min(frees), min(borders)
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
            for k, border in enumerate(borders):
                if border == until:
                    times, reserved, rate = walks[k]
                    place = places[k]
                    frees[k] = rate - reserved[place]
                    place += 1
                    places[k] = place
                    borders[k] = times[place] if place < len(times) else _NEVER

    def first_free(self, link: int, start: int) -> int | None:
        """When the link has something free for the first time from `start` on. None if never again."""
        rate, profile = self._rates[link], self._profiles[link]
        i = bisect.bisect_right(profile.times, start) - 1
        while i < len(profile.times) and profile.reserved[i] >= rate:
            i += 1
        return None if i == len(profile.times) else max(start, profile.times[i])
