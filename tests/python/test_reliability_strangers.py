"""A short run of every hostile stranger. It forks and makes namespaces, so it runs in a process of its own.

tests/campaigns/hostile_strangers.py runs the long campaign.
"""

import json
import pathlib
import subprocess
import sys

import pytest
from real_processes.namespaces import Namespaces

CAMPAIGN = pathlib.Path(__file__).parents[1] / "campaigns/hostile_strangers.py"
WHY_NOT = Namespaces.unavailable()


@pytest.mark.nightly
@pytest.mark.timeout(2700)
@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
def test_no_stranger_slows_a_job_or_alters_a_sum(tmp_path):
    result = tmp_path / "outcomes.json"
    done = subprocess.run(
        [sys.executable, CAMPAIGN, "--seconds", "2", "--json", str(result)],
        capture_output=True,
        text=True,
        timeout=2600,
    )
    assert result.exists(), done.stdout + done.stderr
    outcomes = json.loads(result.read_text())
    assert {outcome["transport"] for outcome in outcomes} == {"udp", "roce"}
    assert all(outcome["sums"] > 0 and outcome["sent"] > 0 for outcome in outcomes), done.stdout
    hurt = [f"{one['attack']}, {one['transport']}: {'; '.join(one['failures'])}" for one in outcomes if one["failures"]]
    assert not hurt and done.returncode == 0, "\n".join(hurt) + done.stderr
