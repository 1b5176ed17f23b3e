"""A short run of the control plane's fuzzer. It must find nothing, but must find planted bugs."""

import pathlib
import subprocess
import sys

import pytest
from patience import PATIENCE

_FUZZER = pathlib.Path(__file__).parents[1] / "fuzz" / "control_fuzz.py"


def _fuzz(runs, planted="pass"):
    script = (
        f"import sys, runpy; sys.argv = ['control_fuzz', '--runs', '{runs}', '--seed', '3']\n"
        "import jaxina.control.membership as membership\n"
        f"{planted}\n"
        f"runpy.run_path({str(_FUZZER)!r}, run_name='__main__')"
    )
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE)


def test_nothing_is_found():
    run = _fuzz(20_000)
    assert run.returncode == 0, run.stderr
    assert "20,000 executions, 0 findings" in run.stdout


@pytest.mark.parametrize(
    "planted",
    [
        pytest.param("membership.hmac.compare_digest = lambda a, b: True", id="secret not checked"),
        pytest.param(
            "membership.BY_CODE = type('', (), {'__contains__': lambda *_: True})()", id="unknown code passed on"
        ),
        pytest.param(
            "membership.limits.MAX_TIMEOUT = membership.limits.UNJOINED_LIFE = float('inf')",
            id="jobs that stay forever",
        ),
        pytest.param("membership.limits.MAX_HOST = 10**9", id="a stranger's text repeated whole"),
        pytest.param(
            "import jaxina.control.roles as roles; roles.check_address = lambda *_: None", id="an address not checked"
        ),
    ],
)
def test_planted_bugs_are_found(planted):
    run = _fuzz(120_000, planted)  # the messages of seed 3 find all five bugs
    assert run.returncode != 0
    assert "finding: seed 3" in run.stderr
