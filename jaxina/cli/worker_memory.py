"""Tunes the malloc of the worker processes for large pieces of memory.

XLA:CPU allocates the results and temporaries of every program by malloc. For a large piece, glibc asks the system for
memory each time, and gives it back when the piece is freed. So each training step gets new pages, which the kernel
clears and maps one by one. For a sum of 100 MB this takes longer than the sum itself.
"""

from __future__ import annotations

from collections.abc import Mapping

VARIABLE = "GLIBC_TUNABLES"
"""glibc reads it when a process starts."""

_NEVER = 1 << 40  # bytes; no piece is that large
_TUNABLES = {
    "glibc.malloc.mmap_threshold": _NEVER,  # large pieces come from the heap too
    "glibc.malloc.trim_threshold": _NEVER,  # the heap's free end is not given back
    "glibc.malloc.hugetlb": 1,  # transparent huge pages, where the system allows them
}


def keeping(environ: Mapping[str, str]) -> dict[str, str]:
    """Makes the variables for a process whose malloc is to keep freed memory.

    Tunables that `environ` sets take precedence. Other C libraries and other mallocs ignore the variable.
    """
    own = ":".join(f"{name}={value}" for name, value in _TUNABLES.items())
    given = environ.get(VARIABLE)
    return {VARIABLE: f"{own}:{given}" if given else own}
