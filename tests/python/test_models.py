"""A short form of formal/check.py: some configurations of each model hold, and some mutants fail.

`make test-nightly` runs all of them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

FORMAL = Path(__file__).resolve().parents[2] / "formal"
# Per model: what holds, and what fails.
CHECKS = {
    "slot": (["3 workers, 8 passes"], ["mutant: the paper's version bit"]),
    "ATP": (
        ["ATP: 2 switches, 1 pass", "ATP: 2 switches, no deadlock", "ATP: 2 workers, progress"],
        ["ATP mutant: reused numbers", "ATP mutant: overlap added"],
    ),
    "NetReduce": (
        ["NetReduce: 2 workers, 3 passes", "NetReduce racks: 3 workers, 2 passes"],
        ["NetReduce mutant: too few messages", "NetReduce mutant: part of a rack"],
    ),
}

pytestmark = pytest.mark.skipif(shutil.which("spin") is None, reason="needs Debian's package spin")


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(FORMAL / "check.py"), *arguments], capture_output=True, text=True, timeout=PATIENCE
    )


@pytest.mark.parametrize("model", CHECKS)
def test_models_hold_and_mutants_fail(model):
    hold, fail = CHECKS[model]
    done = check(*hold, *fail)
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = dict(re.findall(r"^(.+?)  +[\d,]+ states.* (holds|fails)$", done.stdout, re.MULTILINE))
    assert verdicts == {**dict.fromkeys(hold, "holds"), **dict.fromkeys(fail, "fails")}


def test_an_unexpected_verdict_is_an_error(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(FORMAL))
    import check as command
    from spin_check import Check

    assert not command.run(Check("slot.pml", "wrong expectation", "FOREVER PAPER", holds=True))
    assert "UNEXPECTED" in capsys.readouterr().out


def test_a_trace_is_the_published_fault():
    done = check("--trace", "ATP mutant: reused numbers")
    assert done.returncode == 0, done.stderr
    assert "set 2 of pass 0 joins an entry that pass 1 claimed" in done.stdout
    assert done.stdout.rstrip().splitlines()[-1].startswith("failed: ")
