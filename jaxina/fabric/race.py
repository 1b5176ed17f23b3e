"""Which of many updates would arrive first, if it were sent next."""

from __future__ import annotations

from collections.abc import Container, Sequence

from jaxina.fabric.calendar import NANOSECONDS, Calendar
from jaxina.fabric.network import Network, Path
from jaxina.fabric.updates import Update


class Race:
    """The updates that are not planned yet, all for one destination.

    Looking at all of them for each choice is quadratic, and each look walks through a calendar. Two lower bounds save
    most looks. An update cannot arrive before its last link is free for the first time plus its time on an empty path.
    And it cannot arrive earlier than it would have with fewer reservations.

    Args:
      network, destination: they give each update its path.
      calendar: gives the links' rates. They must not change while the race lasts.
      updates: in the order that decides between equal arrivals.
      now: no transfer begins earlier, in nanoseconds.
    """

    def __init__(
        self, network: Network, calendar: Calendar, destination: str, updates: Sequence[Update], now: int
    ) -> None:
        self.updates = updates
        self._paths = [network.path(u.worker, destination) for u in updates]
        self._starts = [max(now, u.ready) for u in updates]
        self._alone = [_time_alone(u.size, path, calendar) for u, path in zip(updates, self._paths, strict=True)]
        self._shortest_first = sorted(range(len(updates)), key=lambda i: self._alone[i])
        self._last_links = {path[-1] for path in self._paths if path}
        self._seen = list(self._starts)
        self._left = [True] * len(updates)
        self._now = now

    def path(self, i: int) -> Path:
        """The path of update i."""
        return self._paths[i]

    def start(self, i: int) -> int:
        """When update i may begin, in nanoseconds."""
        return self._starts[i]

    def end(self, calendar: Calendar, i: int, latest: int | None = None) -> int | None:
        """When update i would arrive, in nanoseconds. None if it never would, or after `latest`."""
        return calendar.end(self._paths[i], self.updates[i].size, self._starts[i], latest)

    def remove(self, i: int) -> None:
        """Update i no longer takes part."""
        self._left[i] = False
        if len(self._shortest_first) > 2 * sum(self._left) + 8:
            self._shortest_first = [i for i in self._shortest_first if self._left[i]]

    def first(self, calendar: Calendar, among: Container[int] | None = None, tried: bool = False) -> int | None:
        """The update that would arrive first: the paper's ShrtUp.

        Args:
          calendar: what is free. The one that the race began with, or a fork of it.
          among: only these. All, unless given.
          tried: the calendar has reservations that may be taken back, so nothing is learned from it.

        Returns:
          Its number. None if none is left that would ever arrive.
        """
        free: dict[int, int | None] = {link: calendar.first_free(link, self._now) for link in self._last_links}
        soonest = min((f for f in free.values() if f is not None), default=self._now)
        best: tuple[int, int] | None = None
        for i in self._shortest_first:
            if not self._left[i] or (among is not None and i not in among):
                continue
            path = self._paths[i]
            if best is not None and path and soonest + self._alone[i] > best[0]:
                break
            begin: int | None = self._starts[i]
            for link in path:
                if link not in free:
                    free[link] = calendar.first_free(link, self._now)
                link_free = free[link]
                begin = None if link_free is None or begin is None else max(begin, link_free)
            if begin is None:
                continue
            bound = max(self._seen[i], begin + self._alone[i])
            if best is not None and (bound, i) > best:
                continue
            end = self.end(calendar, i, None if best is None else best[0])
            if end is not None and not tried:
                self._seen[i] = end
            if end is not None and (best is None or (end, i) < best):
                best = (end, i)
        return None if best is None else best[1]


def _time_alone(size: int, path: Path, calendar: Calendar) -> int:
    """How long a transfer takes on an empty path, in nanoseconds, rounded down. 0 where it would never end."""
    rate = min((calendar.rate(link) for link in path), default=0)
    return size * NANOSECONDS // rate if rate > 0 else 0
