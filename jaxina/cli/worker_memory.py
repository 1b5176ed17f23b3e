"""How the worker processes' malloc treats large pieces of memory.

XLA:CPU takes every program's results and temporaries from malloc. glibc asks the system for a large piece each time and
gives it back when it is freed, so every step of a training gets new pages, which the kernel clears and maps one by one:
for a sum of 100 MB that takes longer than the sum itself.
"""

from __future__ import annotations

from collections.abc import Mapping

_NEVER = 1 << 40  # bytes; no piece is that large
_TUNABLES = {
    "glibc.malloc.mmap_threshold": _NEVER,  # large pieces come from the heap as well
    "glibc.malloc.trim_threshold": _NEVER,  # and its end stays
    "glibc.malloc.hugetlb": 1,  # transparent huge pages, where the system allows them
}


def keeping(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables for a process whose malloc shall keep what is freed. Tunables that `environ` sets stand; another C
    library or another malloc ignores the variable."""
    own = ":".join(f"{name}={value}" for name, value in _TUNABLES.items())
    given = environ.get("GLIBC_TUNABLES")
    return {"GLIBC_TUNABLES": f"{own}:{given}" if given else own}
