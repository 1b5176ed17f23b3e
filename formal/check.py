#!/usr/bin/env python3
"""Checks the protocols' models with spin: every configuration must hold, every mutant must fail.

Usage: formal/check.py [--trace] [NAME...]     (needs spin and a C compiler)

Prints the states, time and verdict of each check, or of those whose names contain a NAME. With --trace it prints the
shortest way to the failure of each of them that must fail, for models that print what happens.
"""

import argparse
import sys
import tempfile
import time

import atp_checks
import netreduce_checks
import slot_checks
from spin_check import Check, shortest_trace, verdict


def run(check: Check) -> bool:
    """Prints the check's line, and returns whether its verdict is the expected one."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        holds, figures = verdict(check, folder)
    seconds = time.monotonic() - start
    expected = holds == check.holds
    told = ("holds" if holds else "fails") + ("" if expected else "   UNEXPECTED")
    print(f"{check.name:40} {figures} {seconds:7.1f} s  {told}", flush=True)
    return expected


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", action="store_true", help="print the shortest way to each failure")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    checks = [
        check
        for check in (*slot_checks.CHECKS, *atp_checks.CHECKS, *netreduce_checks.CHECKS)
        if not options.names or any(name in check.name for name in options.names)
    ]
    if not checks:
        parser.error(f"no check has a name like {' or '.join(options.names)}")
    if options.trace:
        for check in checks:
            if not check.holds and not check.progress:
                with tempfile.TemporaryDirectory() as folder:
                    print(f"{check.name}\n{shortest_trace(check, folder)}\n", flush=True)
        return 0
    return 1 if [check for check in checks if not run(check)] else 0


if __name__ == "__main__":
    sys.exit(main())
