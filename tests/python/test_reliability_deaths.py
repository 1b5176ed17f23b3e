"""A short run of the death campaign. It forks, so it runs in a process of its own.

`make test-nightly` runs the long campaign. test_job_ends.py has kills with real `lax.psum`.
"""

import json
import os
import subprocess
import sys

import death_campaign as campaign
import pytest
from patience import PATIENCE
from real_processes.namespaces import Namespaces

pytestmark = pytest.mark.timeout(400)  # the first test waits for the whole campaign

ROWS = {
    "SIGKILL of a worker, embedded": 3,
    "SIGKILL of a worker, udp": 3,
    "SIGKILL of a worker, direct": 1,
    "SIGKILL of worker 0, direct": 1,
    "SIGSTOP of a worker, embedded": 1,
    "SIGSTOP of a worker, udp": 2,
    "SIGSTOP of a worker, direct": 1,
    "SIGKILL among 250 half-open connections": 1,
    "worker 1 has a wrong secret, embedded": 1,
    "worker 1 has a wrong secret, udp": 1,
    "worker 1 has a wrong secret, direct": 1,
    "SIGKILL of the switch": 1,
    "SIGKILL of a server": 1,
    "no room in /dev/shm, a file-size limit": 1,
}
IN_NAMESPACES = {"no room in /dev/shm, a small tmpfs": 1, "link of worker 1 unplugged": 1}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    result = tmp_path_factory.mktemp("deaths") / "rows.json"
    options = ["--kills", "6", "--stops", "3", "--others", "1", "--json", str(result)]
    done = subprocess.run([sys.executable, campaign.__file__, *options], capture_output=True, text=True, timeout=380)
    assert result.exists(), done.stdout + done.stderr
    return {row["what"]: row for row in json.loads(result.read_text())}


def check(row, trials):
    assert not row["failures"], "\n".join(row["failures"])
    assert row["trials"] == trials and row["errors"] >= trials and row["hangs"] == 0 and row["left"] == 0


@pytest.mark.parametrize("what", ROWS)
def test_survivors_get_the_right_error_in_time(what, rows):
    check(rows[what], ROWS[what])


@pytest.mark.skipif(bool(Namespaces.unavailable()), reason=Namespaces.unavailable())
@pytest.mark.parametrize("what", IN_NAMESPACES)
def test_survivors_get_the_right_error_in_time_in_namespaces(what, rows):
    check(rows[what], IN_NAMESPACES[what])


def test_no_room_for_the_statistics_is_a_typed_error_at_shutdown(tmp_path):
    script = """
import resource, jaxina
jaxina.init(aggregator="embedded")
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    jaxina.shutdown()
except jaxina.errors.SystemCallError as error:
    print(error.message)
"""
    path = tmp_path / "statistics.json"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=os.environ | {"JAXINA_STATS_FILE": str(path), "JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0, done.stderr
    assert f"cannot write {path}" in done.stdout
    assert not list(tmp_path.iterdir())
