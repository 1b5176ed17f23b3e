"""A short run of the death campaign; `make test-nightly` runs the long one. Kills with real `lax.psum` are in
test_job.py."""

import random
import subprocess
import sys

import death_campaign as campaign
import pytest


@pytest.fixture(scope="module")
def switch():
    with campaign.Switch() as running:
        yield running


def check(row):
    assert not row.failures, "\n".join(row.failures)
    assert row.trials > 0 and row.errors >= row.trials and row.hangs == 0 and row.left == 0


@pytest.mark.parametrize("transport", ["embedded", "udp"])
def test_a_killed_worker_is_named_within_two_seconds(transport, switch):
    check(campaign.kills(transport, 3, switch, random.Random(1)))


@pytest.mark.parametrize("transport, trials", [("embedded", 1), ("udp", 2)])
def test_a_stopped_worker_ends_the_job_within_the_timeout(transport, trials, switch):
    check(campaign.stops(transport, trials, switch, random.Random(2)))


def test_a_killed_switch():
    check(campaign.switch_kills(1, random.Random(3)))


def test_half_open_connections_hold_nothing_up(switch):
    check(campaign.half_open(1, switch))


@pytest.mark.parametrize("transport", ["embedded", "udp"])
def test_a_wrong_secret_is_a_rejected_job(transport, switch):
    check(campaign.wrong_secret(transport, 1, switch))


def test_no_room_for_the_slots():
    check(campaign.no_room(1, "in /dev/shm, a file-size limit"))


@pytest.mark.skipif(bool(campaign.Namespaces.unavailable()), reason=campaign.Namespaces.unavailable())
def test_a_small_shared_memory():
    check(campaign.no_room(1, "in /dev/shm, a small tmpfs"))


@pytest.mark.skipif(bool(campaign.Namespaces.unavailable()), reason=campaign.Namespaces.unavailable())
def test_an_unplugged_link():
    check(campaign.unplugged(1))


def test_no_room_for_the_statistics_is_a_typed_error_at_shutdown(tmp_path):
    script = f"""
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
        timeout=100,
        env=campaign.os.environ | {"JAXINA_STATS_FILE": str(path), "JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0, done.stderr
    assert f"cannot write {path}" in done.stdout
    assert not list(tmp_path.iterdir())
