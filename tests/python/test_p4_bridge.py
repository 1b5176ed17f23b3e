"""Real workers whose switch is the Tofino program in the interpreter."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("bridged_sums.py")
P4 = Path(__file__).parents[2] / "p4"
RUN = (sys.executable, "-m", "jaxina.cli", "run", "-n", "2", PROGRAM)
EMBEDDED = {"JAXINA_AGGREGATOR": "embedded", "JAXINA_BLOCK_SIZE": "64", "JAXINA_BLOCKS_PER_CHUNK": "1"}


def sums(command, **variables):
    """Returns the hashes that the workers print, and the output."""
    environment = {**os.environ, **variables}
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, cwd=P4, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(r"sums: (\w+)", done.stdout)
    assert len(found) == 2
    return set(found), done.stdout


def test_the_sums_of_real_workers_are_those_of_embedded():
    wanted, _ = sums(RUN, **EMBEDDED)
    bridged, output = sums([sys.executable, "-m", "conformance.bridge", "--interpret", "one-pipe", "--", *RUN])
    assert bridged == wanted and len(wanted) == 1
    assert int(re.search(r"bridge: (\d+) packets", output)[1]) > 2 * 1137 / 64  # the words of both workers


def test_a_chip_that_combines_gives_the_same_sums():
    """The workers' own servers take the sums of atp.p4, which have no checksum."""
    wanted, _ = sums(RUN, **EMBEDDED)
    bridged, output = sums([sys.executable, "-m", "conformance.bridge", "--interpret", "atp", "--", *RUN])
    assert bridged == wanted and len(wanted) == 1
    found = re.search(r"bridge: (\d+) packets, (\d+) sums", output)
    assert found and int(found[2]) >= 1137 // 64  # whole chunks
