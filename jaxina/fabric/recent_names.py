"""The names of updates that were seen last, so that a duplicate is told from a stranger."""

from __future__ import annotations

import collections

REMEMBERED = 1 << 16
"""So many names are known."""


class RecentNames:
    """The last `REMEMBERED` names that were added."""

    def __init__(self) -> None:
        self._names: collections.OrderedDict[int, None] = collections.OrderedDict()

    def __contains__(self, name: int) -> bool:
        return name in self._names

    def add(self, name: int) -> None:
        """Remembers a name, and forgets the one that was added first if there are too many."""
        self._names[name] = None
        self._names.move_to_end(name)
        if len(self._names) > REMEMBERED:
            self._names.popitem(last=False)
