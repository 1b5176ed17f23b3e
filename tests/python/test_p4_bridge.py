"""Real workers whose switch is the Tofino program in the interpreter."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from conformance.bridge import ModelTime
from patience import PATIENCE

PROGRAM = Path(__file__).with_name("bridged_sums.py")
P4 = Path(__file__).parents[2] / "p4"
RUN = (sys.executable, "-m", "jaxina.cli", "run", "-n", "2", PROGRAM)
EMBEDDED = {"JAXINA_AGGREGATOR": "embedded", "JAXINA_BLOCK_SIZE": "64", "JAXINA_BLOCKS_PER_CHUNK": "1"}


def sums(command, **variables):
    """Returns the hashes that the workers print, and the output."""
    environment = {**os.environ, **variables}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=P4, env=environment)
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


class Model:
    def __init__(self):
        self.waited = []

    def wait(self, milliseconds):
        self.waited.append(milliseconds)


def test_the_model_s_time_passes_slowly_and_entries_are_free_when_it_begins():
    """A packet takes the model much longer than a chip, so an entry must not expire while its packets wait."""
    model, now = Model(), 5.0
    time = ModelTime(model, lambda: now)
    assert model.waited == [10_000]  # a chip that has just begun takes its entries for claimed
    for now in (5.01, 6.0, 6.0, 8.0):  # noqa: B007 - the clock reads it
        time.go_on()
    assert sum(model.waited[1:]) == 60 and 0 not in model.waited  # 3 s
