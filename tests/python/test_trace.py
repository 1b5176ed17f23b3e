"""Timelines of traced runs: files are complete, every pass has its result, and tracing does not change the sums."""

import collections
import itertools
import json
import os
import subprocess
import sys

import pytest
from patience import PATIENCE

from jaxina import trace_file

PROGRAM = """
import sys
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
import jaxina

with jaxina.init() as job:
    mesh = jax.make_mesh((job.processes,), ("workers",))
    x = np.random.default_rng(job.process).standard_normal((1, 100_000)).astype(np.float32)
    x = jax.make_array_from_process_local_data(NamedSharding(mesh, P("workers")), x)
    summed = jax.shard_map(lambda x: jax.lax.psum(x, "workers"), mesh=mesh, in_specs=P("workers"), out_specs=P())
    total = jax.jit(summed)
    for _ in range(3):
        result = total(x)
    if job.process == 0:
        np.save(sys.argv[1], np.asarray(result.addressable_data(0)))
"""


def run(folder, name, *options):
    script, result, stats = folder / "program.py", folder / f"{name}.npy", folder / f"{name}.stats"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "jaxina.cli", "run", "-n", "2", "--stats-json", stats, *options, script, result],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return result.read_bytes(), json.loads(stats.read_text()), done.stderr


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The sum of a run that is not traced. It is the same over every transport."""
    return run(tmp_path_factory.mktemp("plain"), "plain")[0]


@pytest.mark.parametrize("options", [["--aggregator", "embedded"], ["--aggregator", "udp", "--loss", "0.02"]])
def test_a_traced_run_of_two_processes(tmp_path, options, plain):
    path = tmp_path / "trace.json"
    traced, stats, err = run(tmp_path, "traced", *options, "--trace", path)
    assert traced == plain
    assert f"2 of 2 workers in {path}" in err and "lacks its first" not in err

    events = json.loads(path.read_text())["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {rank: f"worker {rank} of 2, {options[1]}" for rank in range(2)}
    for rank, counted in enumerate(stats["workers"]):
        mine = [e for e in events if e["pid"] == rank]
        check_passes(mine, counted)
        begins, ends = ([e for e in mine if e["ph"] == phase] for phase in "be")
        assert [e["args"]["elements"] for e in begins] == [100_000] * 3
        assert [e["id2"] for e in begins] == [e["id2"] for e in ends]
        assert all(b["ts"] < e["ts"] for b, e in zip(begins, ends, strict=True))


def check_passes(events, counted):
    """Each pass of a slot is one slice, from its sending to its result. The slices of a slot do not overlap."""
    slices, instants = collections.defaultdict(list), collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X" and "epoch" in event.get("args", ()):
            slices[event["tid"]].append(event)
        elif event["ph"] == "i":
            instants[event["name"]].append((event["tid"], event["ts"]))
    passes = [e for of_slot in slices.values() for e in of_slot]
    assert len(instants["sent"]) == len(instants["result"]) == len(passes)
    assert len(instants["sent again"]) == counted["retransmissions"]
    assert sum(e["args"]["transmissions"] for e in passes) == counted["packets_sent"]
    assert len(instants["dropped"]) == counted["packets_dropped"]
    chunks = -(-100_000 // 256)
    for of_slot in slices.values():
        assert [e["args"]["epoch"] for e in of_slot] == list(range(len(of_slot)))
        for before, after in itertools.pairwise(of_slot):
            assert before["ts"] + before["dur"] <= after["ts"] + 1e-3
    data = {(e["args"]["collective"], e["args"]["chunk"]) for e in passes if e["name"] == "data"}
    assert {collective for collective, _ in data} == {0, 1, 2}
    assert len(data) in (3 * chunks, 3 * -(-chunks // 32))  # chunks of one block, or of 32
    assert all("unfinished" not in e["args"] for e in passes)


def test_a_process_that_is_alone_writes_the_file_itself(tmp_path):
    path = tmp_path / "alone.json"
    text = (
        "import jax, jax.numpy as jnp, jaxina\n"
        "mesh = jax.sharding.Mesh(jax.devices(), 'd')\n"
        f"with jaxina.init(trace={str(path)!r}):\n"
        "    f = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, 'd'), mesh=mesh,\n"
        "        in_specs=jax.P('d'), out_specs=jax.P()))\n"
        "    assert float(f(jnp.ones(2))[0]) == 2\n"
    )
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "2"}
    subprocess.run([sys.executable, "-c", text], check=True, timeout=PATIENCE, env=environment)
    events = json.loads(path.read_text())["traceEvents"]
    assert [e["args"]["elements"] for e in events if e["ph"] == "b"] == [2]


def test_parts_that_are_missing_are_left_out(tmp_path):
    parts = [trace_file.of_process(tmp_path / "t.json", rank, 3) for rank in range(3)]
    assert [part.name for part in parts] == ["t.0.json", "t.1.json", "t.2.json"]
    assert trace_file.of_process(tmp_path / "t.json", 0, 1) == tmp_path / "t.json"
    trace_file.write(parts[0], b'{"name":"a"},\n{"name":"b"}')
    trace_file.write(parts[2], b'{"name":"c"}')
    whole = tmp_path / "whole.json"
    assert trace_file.merge(parts, whole) == 2
    assert [e["name"] for e in json.loads(whole.read_text())["traceEvents"]] == ["a", "b", "c"]
    assert trace_file.merge([], whole) == 0
    assert json.loads(whole.read_text())["traceEvents"] == []


@pytest.mark.parametrize("written", [0, 10, -1])
def test_a_part_without_its_end_spoils_no_other(tmp_path, written):
    """A worker that is killed while it writes leaves such a part."""
    parts = [tmp_path / "t.0.json", tmp_path / "t.1.json"]
    for part in parts:
        trace_file.write(part, b'{"name":"a"}')
    parts[1].write_bytes(parts[1].read_bytes()[:written])
    whole = tmp_path / "whole.json"
    assert trace_file.merge(parts, whole) == 1
    assert [e["name"] for e in json.loads(whole.read_text())["traceEvents"]] == ["a"]
