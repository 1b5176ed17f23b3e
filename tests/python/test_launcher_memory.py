"""The allocator's settings that `jaxina run` gives its workers."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from jaxina.cli import worker_memory

# Allocates, writes and frees 64 MiB three times. Prints the page faults of each time.
PROGRAM = """
import ctypes, resource
c = ctypes.CDLL(None)
c.malloc.restype, c.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
c.free.argtypes, c.memset.argtypes = [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    memory = c.malloc(64 << 20)
    c.memset(memory, 1, 64 << 20)
    c.free(memory)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(environment: dict[str, str]) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    return [int(line) for line in done.stdout.split()]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_what_is_freed_stays_with_the_process() -> None:
    plain = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
    assert faults(plain)[2] > 16  # the kernel gives new pages each time; huge pages make fewer faults
    assert faults({**plain, **worker_memory.keeping(plain)})[1:] == [pytest.approx(0, abs=15)] * 2


def test_tunables_of_the_user_come_last_and_so_stand() -> None:
    given = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=0"}
    assert worker_memory.keeping(given)["GLIBC_TUNABLES"].endswith(":glibc.malloc.hugetlb=0")
