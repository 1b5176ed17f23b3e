"""Numbers that become zero beside larger numbers of their block are counted, for each program, and only once."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

import jaxina
import jaxina.errors

PROGRAM = """
import sys
import jax, jaxina, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

job = jaxina.init()
mesh = jax.make_mesh((jax.device_count(),), ("data",))
sharding = NamedSharding(mesh, P("data"))
row = np.full(65536, 1e-10, np.float32)
row[::256] = 1.0                                       # one in each block of 256
row[1::256] = 0.0                                      # a zero is not lost

def everywhere(value):
    return jax.make_array_from_callback((jax.device_count(), value.size), sharding, lambda _: value[None])

@jax.jit
@jax.shard_map(mesh=mesh, in_specs=P("data"), out_specs=P())
def asked_for(x):
    return jax.lax.psum(x, "data")

@jax.jit
@jax.shard_map(mesh=mesh, in_specs=P("data"), out_specs=P())
def loses_nothing(x):
    return jax.lax.psum(2 * x, "data")

by_partitioner = jax.jit(lambda x: x.sum(0), out_shardings=NamedSharding(mesh, P()))

@jax.jit
def wide_by_partitioner(x):
    return jax.lax.with_sharding_constraint(x.sum(0), NamedSharding(mesh, P()))

@jax.jit
@jax.shard_map(mesh=mesh, in_specs=P("data"), out_specs=P())
def wide(x):
    return jax.lax.psum(x, "data")

for _ in range(3):
    asked_for(everywhere(row)).block_until_ready()
by_partitioner(everywhere(row)).block_until_ready()
with jaxina.collectives(bits=64):
    for keeps in (wide, wide_by_partitioner):
        got = np.asarray(keeps(everywhere(row)).addressable_data(0)).reshape(-1)
        np.testing.assert_array_equal(got, jax.device_count() * row)
loses_nothing(everywhere(np.arange(1, 1000, dtype=np.float32))).block_until_ready()
if jax.process_index() == 0:
    import json
    counts = {one.name: [one.floats, one.rounded_to_zero] for one in jaxina.report().programs}
    print(json.dumps([job.statistics()["rounded_to_zero"], counts]), flush=True)
"""

ONCE = 256 * 254


def run(arguments: list[str], **environment: str) -> tuple[int, dict[str, list[int]], str]:
    command = [str(Path(sys.executable).with_name("jaxina")), "run", *arguments, sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=os.environ | environment
    )
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if "jit_asked_for" in line)
    lost, counts = json.loads(re.search(r"\[\d+, \{.*", line)[0])  # the tag with the worker's number comes before it
    return lost, counts, done.stderr


@pytest.mark.parametrize("aggregator", [["--aggregator", "embedded"], ["--aggregator", "udp", "--loss", "0.05"]])
def test_lost_numbers_are_counted_by_program_and_once(aggregator: list[str], tmp_path: Path) -> None:
    lost, counts, log = run(["-n", "2", *aggregator], XDG_CACHE_HOME=str(tmp_path))
    assert counts == {
        "jit_asked_for": [3 * 65536, 3 * ONCE],
        "jit__lambda": [65536, ONCE],
        "jit_wide": [65536, 0],
        "jit_wide_by_partitioner": [65536, 0],
        "jit_loses_nothing": [999, 0],
    }
    assert lost == 4 * ONCE
    assert f"{4 * ONCE} numbers of process 0 were rounded to zero" in log
    last = subprocess.run(
        [str(Path(sys.executable).with_name("jaxina")), "info", "--last"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path), "COLUMNS": "200"},
    ).stdout
    assert f"{ONCE} of 65536 numbers rounded to zero" in last
    assert f'"rounded_to_zero": {4 * ONCE}' in last


def test_devices_of_one_process_are_counted_each() -> None:
    _, counts, _ = run(["-n", "1"], XLA_FLAGS="--xla_force_host_platform_device_count=2")
    assert counts["jit_asked_for"] == [2 * 3 * 65536, 2 * 3 * ONCE]
    assert counts["jit__lambda"] == [0, 0], "it stays with XLA"


def test_other_numbers_of_bits_are_refused() -> None:
    with pytest.raises(jaxina.errors.InvalidArgumentError, match="8, 16, 32 or 64, not 24"):
        jaxina.collectives(bits=24)


def test_smaller_blocks_lose_less() -> None:
    _, counts, _ = run(["-n", "2"], JAXINA_BLOCK_SIZE="8")
    assert counts["jit_asked_for"] == [3 * 65536, 3 * 256 * 6]


DISAGREES = """
import jax, jaxina, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

jaxina.init()
mesh = jax.make_mesh((2,), ("data",))
rows = jax.make_array_from_callback((2, 8), NamedSharding(mesh, P("data")), lambda _: jnp.ones((1, 8)))
asked_for = jax.shard_map(lambda x: jax.lax.psum(x, "data"), mesh=mesh, in_specs=P("data"), out_specs=P())
by_partitioner = jax.jit(lambda x: x.sum(0), out_shardings=NamedSharding(mesh, P()))
ours, others = {DIFFERENT}
with jaxina.collectives(**(ours if jax.process_index() == 0 else others), smallest=0):
    try:
        jax.block_until_ready({PROGRAM}(rows))
    except Exception as error:
        print("refused:", "MISMATCH" in str(error), flush=True)
"""


@pytest.mark.parametrize(
    "program, different",
    [
        ("jax.jit(asked_for)", "dict(bits=64), dict(bits=32)"),
        ("by_partitioner", "dict(bits=64), dict(bits=32)"),
        ("jax.jit(asked_for)", "dict(bits=8), dict(bits=32)"),
        ("by_partitioner", "dict(bits=8), dict(bits=16)"),
        ("jax.jit(asked_for)", "dict(bits=8), dict(bits=8, rounding='stochastic')"),
        (
            "jax.jit(asked_for)",
            "dict(bits=8, rounding='stochastic', seed=1), dict(bits=8, rounding='stochastic', seed=2)",
        ),
    ],
)
def test_processes_that_give_other_precisions_get_an_error(program: str, different: str) -> None:
    source = DISAGREES.replace("{PROGRAM}", program).replace("{DIFFERENT}", different)
    command = [str(Path(sys.executable).with_name("jaxina")), "run", "-n", "2", sys.executable, "-c", source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.count("refused: True") == 2, done.stdout + done.stderr
