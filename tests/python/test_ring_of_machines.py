"""A ring of processes that have several devices each: one ring for all of them (docs/netreduce.md)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from patience import PATIENCE

ELEMENTS = 100_000
PROGRAM = f"""
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import jaxina
from jaxina.numerics import all_reduce_reference

jaxina.init()
devices = np.array(jax.devices())
mesh = Mesh(devices, ("d",))
add = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, "d"), mesh=mesh, in_specs=P("d"), out_specs=P()))
x = np.random.default_rng(3).standard_normal((devices.size, {ELEMENTS})).astype(np.float32)
mine = jax.make_array_from_callback(x.shape, NamedSharding(mesh, P("d")), lambda index: x[index])
with jaxina.errors.typed():
    got = jax.block_until_ready(add(mine))
wanted = all_reduce_reference(list(x)).tobytes()
assert all(np.asarray(one.data)[0].tobytes() == wanted for one in got.addressable_shards)
print(devices.size, "devices have the right bits", flush=True)
"""


def sum_in_ring(folder: Path, devices: int) -> dict[str, int]:
    """Sums in a ring of two processes with so many devices each. Returns their counters, added."""
    program, stats = folder / "program.py", folder / f"{devices}.json"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "jaxina.cli", "run", "-n", "2", "--devices-per-process", str(devices)]
    command += ["--aggregator", "netreduce", "--stats-json", str(stats), str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"{2 * devices} devices have the right bits") == 2, done.stdout
    total: dict[str, int] = json.loads(stats.read_text())["total"]
    return total


def test_a_process_sends_as_much_for_several_devices_as_for_one(tmp_path: Path):
    one, three = sum_in_ring(tmp_path, 1), sum_in_ring(tmp_path, 3)
    for total in (one, three):
        assert total["bytes_of_32_bits"] >= 2 * 4 * ELEMENTS
        # In a ring of two, each sends every word once: as a partial sum, or as a result. A connection may send again.
        assert total["bytes_sent"] >= 2 * 4 * ELEMENTS
    assert three["bytes_of_32_bits"] == one["bytes_of_32_bits"]
