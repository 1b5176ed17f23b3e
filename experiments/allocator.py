"""Gives a program of the experiments the malloc of `jaxina run`'s workers."""

from __future__ import annotations

import os
import sys

from jaxina.cli import worker_memory


def like_a_worker() -> None:
    """Starts this program again if its malloc does not keep what is freed. glibc reads that at a process's start.

    XLA's CPU programs get their buffers from malloc. As it comes, glibc maps each large one anew, so every step faults
    in the same pages again. Results are the same. With other C libraries the second start changes nothing.
    """
    settings = worker_memory.keeping({})[worker_memory.VARIABLE]
    if settings not in os.environ.get(worker_memory.VARIABLE, ""):
        sys.stdout.flush()
        os.execve(sys.executable, sys.orig_argv, os.environ | worker_memory.keeping(os.environ))
