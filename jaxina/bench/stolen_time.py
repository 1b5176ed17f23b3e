"""Measures stolen time: processor time that this virtual machine wanted and that its host gave to others.

Times that are measured meanwhile are too long, and nothing else on the machine shows why.
"""

from __future__ import annotations

from pathlib import Path

_STAT = Path("/proc/stat")
# A smaller share changes no measured time noticeably.
_WORTH_TELLING = 0.01


class StolenTime:
    """Counts stolen time from its construction on, for all processors and all programs together."""

    def __init__(self, stat: Path = _STAT):
        self._stat = stat
        self._wanted, self._stolen = _ticks(stat)

    def share(self) -> float:
        """The share of the wanted processor time that was stolen, from 0 to 1. 0 if the kernel is not told of any."""
        wanted, stolen = _ticks(self._stat)
        wanted, stolen = wanted - self._wanted, stolen - self._stolen
        return stolen / wanted if wanted > 0 else 0.0


def _ticks(stat: Path) -> tuple[int, int]:
    """Wanted and stolen processor time since the system's start, in ticks; see proc(5)."""
    every = stat.read_text().partition("\n")[0].split()[1:]
    user, nice, system, _idle, _io_wait, interrupts, soft_interrupts, stolen = map(int, every[:8])
    return user + nice + system + interrupts + soft_interrupts + stolen, stolen


def warning(share: float) -> str | None:
    """The warning for times that were measured while `share` was stolen; None if the share is too small to matter."""
    if share < _WORTH_TELLING:
        return None
    return (
        f"the host of this virtual machine gave {share:.0%} of the processor time that it wanted to others, so times "
        "are too long"
    )
