"""Keeps the memory that XLA's CPU programs free, for the next step."""

from __future__ import annotations

import ctypes

# Parameters of glibc's mallopt(3).
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4


def keep_freed_memory() -> None:
    """Lets glibc keep what is freed. Without glibc it does nothing.

    XLA's CPU programs get their buffers from malloc. glibc maps each large one anew, so every step faults in the same
    pages again. Results are the same.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "gnu_get_libc_version"):
        for parameter, value in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 1 << 28)):
            libc.mallopt(parameter, value)
