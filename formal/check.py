#!/usr/bin/env python3
"""Checks the model of the slot protocol with spin: every configuration must hold, every mutant must fail.

Usage: formal/check.py [NAME...]     (needs spin and a C compiler; prints the states, time and verdict of each run)
"""

import dataclasses
import pathlib
import re
import subprocess
import sys
import tempfile
import time

MODEL = pathlib.Path(__file__).with_name("slot.pml")
MEMORY_MIB = 3000
TIME_LIMIT_S = 300


@dataclasses.dataclass(frozen=True)
class Check:
    """One run of spin: with `progress` it searches for cycles, else for failed assertions and invalid end states."""

    name: str
    defines: str
    holds: bool = True
    progress: bool = False


CHECKS = [
    Check("2 workers, 8 passes", "FOREVER N=2 C=8"),
    Check("3 workers, 8 passes", "FOREVER N=3 C=8"),
    Check("2 workers, 2 slots", "FOREVER N=2 S=2 C=8"),
    Check("3 workers, 2 slots", "FOREVER N=3 S=2 C=4"),
    Check("2 workers, restart", "FOREVER N=2 C=8 RESTARTS=1"),
    Check("3 workers, restart", "FOREVER N=3 C=4 RESTARTS=1"),
    Check("2 workers, no deadlock", "N=2 C=4 LOSSES=3 DUPLICATES=2"),
    Check("3 workers, no deadlock", "N=3 C=4 LOSSES=2 DUPLICATES=1"),
    Check("2 workers, progress", "N=2 C=4 LOSSES=3 DUPLICATES=2", progress=True),
    Check("3 workers, progress", "N=3 C=4 LOSSES=2 DUPLICATES=1", progress=True),
    Check("2 slots, progress", "N=2 S=2 C=4 LOSSES=1 DUPLICATES=1", progress=True),
    Check("restart, progress", "N=2 C=4 LOSSES=1 DUPLICATES=1 RESTARTS=1", progress=True),
    Check("epoch modulo 4, window 2", "FOREVER N=3 C=8 M=4 W=2"),
    Check("epoch modulo 6, window 4", "FOREVER N=3 C=8 M=6 W=4"),
    # These two show that the checks above are not vacuous: with NO_END the model claims that the end is never reached.
    Check("the end is reached", "FOREVER N=3 C=8 NO_END", holds=False),
    Check("the end is reached after a restart", "FOREVER N=2 C=8 RESTARTS=1 NO_END", holds=False),
    Check("mutant: the paper's version bit", "FOREVER PAPER", holds=False),
    Check("mutant: the paper's, 3 workers", "FOREVER PAPER N=3", holds=False),
    Check("mutant: no bitmap clear", "NO_BITMAP_CLEAR", holds=False, progress=True),
    Check("mutant: premature slot reuse", "PREMATURE_REUSE", holds=False, progress=True),
    Check("mutant: no resend", "NO_RESEND", holds=False, progress=True),
    Check("mutant: no secret", "FOREVER NO_SECRET RESTARTS=1", holds=False),
    Check("mutant: epoch modulo 4, window 3", "FOREVER N=2 C=8 M=4 W=3", holds=False),
    Check("mutant: epoch modulo 6, window 5", "FOREVER N=2 C=8 M=6 W=5", holds=False),
]


def run(check: Check, folder: str) -> tuple[bool, str]:
    """Returns whether the property holds, and the number of states and the memory as text."""
    defines = [f"-D{define}" for define in check.defines.split()]
    subprocess.run(["spin", "-a", *defines, str(MODEL)], cwd=folder, check=True, stdout=subprocess.PIPE)
    mode = "-DNP" if check.progress else "-DSAFETY"
    subprocess.run(
        ["cc", "-O1", "-w", mode, "-DCOLLAPSE", "-DVECTORSZ=4096", f"-DMEMLIM={MEMORY_MIB}", "-o", "pan", "pan.c"],
        cwd=folder,
        check=True,
    )
    # A network that keeps packets forever never comes to rest, so its end states mean nothing: -E ignores them.
    forever = "FOREVER" in check.defines
    options = ["-m2000000", *(["-l"] if check.progress else ["-E"] if forever else [])]
    output = subprocess.run(
        ["./pan", *options], cwd=folder, check=True, stdout=subprocess.PIPE, text=True, timeout=TIME_LIMIT_S
    ).stdout
    errors = int(re.search(r"errors: (\d+)", output).group(1))
    if errors == 0 and ("max search depth too small" in output or "Search not completed" in output):
        raise RuntimeError(f"{check.name}: the search was not exhaustive\n{output}")
    states = re.search(r"(\S+) states, stored", output).group(1)
    memory = re.search(r"(\S+)\s+total actual memory usage", output).group(1)
    return errors == 0, f"{float(states):>12,.0f} states {float(memory):>8,.0f} MB"


def main(names: list[str]) -> int:
    failed = 0
    for check in CHECKS:
        if names and not any(name in check.name for name in names):
            continue
        with tempfile.TemporaryDirectory() as folder:
            start = time.monotonic()
            holds, figures = run(check, folder)
            seconds = time.monotonic() - start
        verdict = "holds" if holds else "fails"
        expected = holds == check.holds
        failed += not expected
        print(f"{check.name:34} {figures} {seconds:7.1f} s  {verdict}{'' if expected else '   UNEXPECTED'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
