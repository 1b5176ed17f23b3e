"""A short run of the control plane's fuzzer. It must find nothing, but must find planted bugs."""

import pathlib
import subprocess
import sys

import pytest
from patience import PATIENCE

_FUZZER = pathlib.Path(__file__).parents[1] / "fuzz" / "control_fuzz.py"


def _fuzz(runs, seed=3, planted="pass"):
    script = (
        f"import sys, runpy; sys.argv = ['control_fuzz', '--runs', '{runs}', '--seed', '{seed}']\n"
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
    "seed, planted",  # each with a seed whose first messages find it
    [
        pytest.param(1, "membership.hmac.compare_digest = lambda a, b: True", id="secret not checked"),
        pytest.param(
            19, "membership.BY_CODE = type('', (), {'__contains__': lambda *_: True})()", id="unknown code passed on"
        ),
        pytest.param(
            1,
            "membership.limits.MAX_TIMEOUT = membership.limits.UNJOINED_LIFE = float('inf')",
            id="jobs that stay forever",
        ),
        pytest.param(8, "membership.limits.MAX_HOST = 10**9", id="a stranger's text repeated whole"),
        pytest.param(
            1,
            "import jaxina.control.roles as roles; roles.check_address = lambda *_: None",
            id="an address not checked",
        ),
    ],
)
def test_planted_bugs_are_found(seed, planted):
    run = _fuzz(20_000, seed, planted)
    assert run.returncode != 0
    assert f"finding: seed {seed}" in run.stderr
