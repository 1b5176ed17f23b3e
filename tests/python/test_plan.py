"""The model of a ring and of a switch that adds, and the command that evaluates it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jaxina.bench.ring_model import Machines, bytes_on_link


def test_without_latency_a_switch_saves_what_theory_says():
    for count in (2, 4, 8, 64):
        flat = Machines(count, 1, rate=1e9, inside=1.0, latency=0.0)
        assert flat.ring_s(1e6) / flat.switch_s(1e6) == pytest.approx(2 * (count - 1) / count)


def test_the_ratio_of_rates_from_which_a_switch_wins():
    """docs/netreduce.md: B_i / B_x > 2 (g - 1) P / (g (P - 2)), which is 1.81 for g = 8 and P = 64."""
    for devices, count in ((8, 8), (2, 4), (4, 2)):
        everything = devices * count
        limit = 2 * (devices - 1) * everything / (devices * (everything - 2))
        assert limit == pytest.approx({8: 1.81, 2: 4 / 3, 4: 2.0}[devices], abs=0.005)
        for share, wins in ((0.99, False), (1.01, True)):
            made = Machines(count, devices, rate=1e9, inside=share * limit * 1e9, latency=0.0)
            assert (made.switch_s(1e6) < made.ring_s(1e6)) == wins


def test_a_message_of_16_blocks_has_17_packets_of_1024_bytes():
    # 16 full packets of words; the 17th has the check and the exponents.
    assert bytes_on_link(16384, 1024) == 16384 + 8 + 16 + 20 + 17 * (14 + 28 + 16)
    assert bytes_on_link(16384, 4096) == 16384 + 8 + 16 + 20 + 5 * (14 + 28 + 16)


def test_the_command_prints_a_row_for_each_size():
    command = [sys.executable, "-m", "jaxina.cli", "plan", "-n", "4", "--rate", "200", "-b", "8M", "-e", "8M"]
    done = subprocess.run([*command, "--latency", "0"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    (row,) = [line.split() for line in done.stdout.splitlines() if "8,388,608" in line]
    assert row[-1] == "1.50"
