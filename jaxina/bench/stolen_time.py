"""How much processor time a virtual machine wanted and its host gave to others.

Figures that are taken meanwhile are worse, and nothing else on the machine shows why.
"""

from __future__ import annotations

from pathlib import Path

_STAT = Path("/proc/stat")
# Below, it changes no figure.
_WORTH_TELLING = 0.01


class StolenTime:
    """Counts from its making on, for all processors and all programs together."""

    def __init__(self, stat: Path = _STAT):
        self._stat = stat
        self._wanted, self._stolen = _ticks(stat)

    def share(self) -> float:
        """Of the processor time that was wanted, 0 to 1. 0 where the kernel is not told of any."""
        wanted, stolen = _ticks(self._stat)
        wanted, stolen = wanted - self._wanted, stolen - self._stolen
        return stolen / wanted if wanted > 0 else 0.0


def _ticks(stat: Path) -> tuple[int, int]:
    """Wanted and stolen, since the system's start; proc(5)."""
    every = stat.read_text().partition("\n")[0].split()[1:]
    user, nice, system, _idle, _io_wait, interrupts, soft_interrupts, stolen = map(int, every[:8])
    return user + nice + system + interrupts + soft_interrupts + stolen, stolen


def warning(share: float) -> str | None:
    """What to tell the reader of figures taken while `share` was stolen, if that is worth telling."""
    if share < _WORTH_TELLING:
        return None
    return f"the host of this virtual machine gave {share:.0%} of the processor time wanted here to others: times are too long"
