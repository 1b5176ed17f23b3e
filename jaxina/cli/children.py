"""Ties child processes to their parent's life."""

from __future__ import annotations

import ctypes
import os
import signal

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
