"""`jaxina sim`: runs of seeds pass, a seed replays byte for byte, and the output names seeds and scenarios."""

import json
import os
import signal
import threading

import pytest
from typer.testing import CliRunner

from jaxina import _native
from jaxina.cli import sim
from jaxina.cli.app import app
from jaxina.errors import InvalidArgumentError

runner = CliRunner()


def test_seeds_hold_and_figures_are_written(tmp_path):
    path = tmp_path / "sim.json"
    result = runner.invoke(app, ["sim", "--seeds", "0:300", "--jobs", "2", "--json", str(path)])
    assert result.exit_code == 0, result.output
    figures = json.loads(path.read_text())
    assert figures["seeds"] == 300 and figures["failures"] == []
    assert figures["sums"] > 1000 and figures["lost"] > 0 and figures["hostile"] > 0
    assert "300 seeds of swarm, 0 failed" in result.output


def test_a_seed_replays_byte_for_byte():
    first, second = (_native.sim.trace("hostile", 11) for _ in range(2))
    assert first == second
    assert _native.sim.trace("hostile", 12)[2] != first[2]


def test_threads_do_not_change_what_happens():
    hashes = {_native.sim.Campaign("swarm", 0, 100, n).result()["log_hash"] for n in (1, 2, 5)}
    assert len(hashes) == 1


def test_trace_is_a_timeline_by_slot():
    result = runner.invoke(app, ["sim", "--seeds", "7", "--scenario", "lossy", "--trace"])
    assert result.exit_code == 0
    assert "job 0, slot 0" in result.output
    assert "w0 -> switch: update epoch 0" in result.output


def test_scenarios_are_listed():
    result = runner.invoke(app, ["sim", "--seeds", "0", "--scenario", "list"])
    assert "swarm" in result.output and "hostile" in result.output


def test_unknown_scenario_is_a_typed_error():
    with pytest.raises(InvalidArgumentError, match="no scenario is named nonsense; there are swarm"):
        _native.sim.trace("nonsense", 1)


@pytest.mark.parametrize("text", ["", "a", "5:5", "7:3", "1:", ":4", "1:2:3", "-1:4"])
def test_bad_seed_ranges_are_refused(text):
    with pytest.raises(InvalidArgumentError):
        sim.parse_seeds(text)


def test_seed_ranges():
    assert sim.parse_seeds("3:9") == (3, 9)
    assert sim.parse_seeds("42") == (42, 43)


def test_an_interrupted_run_ends_with_the_figures_of_what_it_did(capsys):
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(SystemExit) as ended:
        sim.sim(seeds="5:1000000000", scenario="swarm", jobs=1, trace=False, json_file=None)
    assert ended.value.code == 1
    said = capsys.readouterr().out
    seeds = int(said.split(" seeds of swarm")[0].replace(",", ""))
    assert seeds > 0 and f"the rest: --seeds {5 + seeds}:1000000000" in said
