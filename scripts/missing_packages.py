"""Prints those packages of a file that this Python's environment lacks, or has in an older version.

python scripts/missing_packages.py REQUIREMENTS.txt
"""

from __future__ import annotations

import importlib.metadata
import pathlib
import re
import sys


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def is_met(requirement: str) -> bool:
    """Whether a package of the form `name==1.2` is there in this version or a newer one."""
    name, _, version = requirement.partition("==")
    try:
        return numbers(importlib.metadata.version(name)) >= numbers(version)
    except importlib.metadata.PackageNotFoundError:
        return False


for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
    if line and not line.startswith("#") and not is_met(line):
        print(line)
