"""Ties child processes to their parent's life, and finds what they leave behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def die_with(parent: int) -> None:
    """Asks the kernel to kill this process when the thread that forked it ends.

    To be called in the child, between fork and exec. `parent` is the parent's process id.
    """
    if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:  # the parent ended before prctl was called
        os.kill(os.getpid(), signal.SIGKILL)


def living_groups() -> set[int]:
    """The numbers of all process groups in which a process runs that has not ended."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            state, _, group = stat.read_bytes().rpartition(b")")[2].split()[:3]
            if state not in (b"Z", b"X"):
                found.add(int(group))
    return found
