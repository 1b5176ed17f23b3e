"""A process that does not enter a collective is named, in real jobs.

tests/campaigns/named_hangs.py runs the long campaign.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from patience import PATIENCE

CAMPAIGN = pathlib.Path(__file__).parents[1] / "campaigns/named_hangs.py"
JAXINA = [sys.executable, "-m", "jaxina.cli"]


@pytest.mark.parametrize("way", ["carried", "xla", "gloo"])
def test_hangs_are_named_and_delays_are_not(way):
    ran = subprocess.run(
        [
            sys.executable,
            CAMPAIGN,
            "--hangs",
            "2",
            "--delays",
            "5",
            "--late-after",
            "1",
            "--processes",
            "2",
            "--ways",
            way,
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert "hangs 2, named" in ran.stdout, ran.stderr
    assert "false alarms 0" in ran.stdout
    # On a busy machine a message may come later than the campaign allows, but it must be right.
    wrong = [line for line in ran.stderr.splitlines() if re.match(rf"{way}, step \d+: (?!named only after)", line)]
    assert not wrong


STALLED = """
import sys, time
import jax, jaxina
jaxina.init(late_after=1, timeout=100)
def callback(x):
    if jax.process_index() == 1 and x[0] > 1:
        input_that_never_comes()
    return x
def input_that_never_comes():
    time.sleep(1000)
def step(x):
    x = jax.pure_callback(callback, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    return jax.lax.psum(x, "w")
f = jax.pmap(step, "w")
for n in range(3):
    jax.block_until_ready(f(jax.numpy.full((1, 4), float(n))))
"""


def test_a_callback_that_does_not_return_is_shown_and_status_shows_the_job(tmp_path):
    script = tmp_path / "stalled.py"
    script.write_text(STALLED)
    listening = subprocess.Popen([*JAXINA, "coordinator", "-n", "2"], stdout=subprocess.PIPE, text=True)
    address = re.match(r"JAXINA_COORDINATOR=(\S+)", listening.stdout.readline())[1]
    settings = {"JAXINA_COORDINATOR": address, "JAXINA_PROCESSES": "2"}
    workers = [
        subprocess.Popen(
            [sys.executable, script],
            env={**os.environ, **settings, "JAXINA_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = []
        for line in workers[0].stderr:
            said.append(line)
            if "input_that_never_comes: time.sleep" in line:
                break
        text = "".join(said)
        assert "rank 1 is late: rank 0 has waited" in text
        assert "psum f32[4]" in text or "psum f32[1,4]" in text
        assert "callback:" in text
        seen = subprocess.run([*JAXINA, "status", "--coordinator", address], capture_output=True, text=True, timeout=60)
        assert "rank 1 is late" in seen.stdout and "running" in seen.stdout, seen.stdout + seen.stderr
    finally:
        for process in (*workers, listening):
            process.kill()
            process.communicate()
