"""Where jaxina carries their sums, `int8` and `int16` send narrow words, with the bits of the simulation."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import compressed_program
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compressed_program import SIZES, STEPS, gradients
from compressor_cases import get, initial, steps
from eight_devices import DEVICES, on_devices, sharded
from jax.sharding import PartitionSpec as P
from patience import PATIENCE

import jaxina
from jaxina import compressors, numerics

JAXINA = Path(sys.executable).with_name("jaxina")
BITS = {"int8": 8, "int16": 16, "int8+ef": 8}
PASS_BYTES = 1024  # of words, over udp


def run(file: Path, *options: object, specs: tuple[str, ...], **environment: str) -> dict:
    program = [sys.executable, compressed_program.__file__, file, *specs]
    done = subprocess.run(
        [str(part) for part in (JAXINA, "run", *options, *program)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return pickle.loads(file.read_bytes())


def same_bits(got: np.ndarray, expected: np.ndarray, what: str) -> None:
    """NaNs may differ in their bits."""
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected), err_msg=what)
    same = (got.view(np.uint32) == np.asarray(expected).view(np.uint32)) | np.isnan(got)
    assert same.all(), f"{what}: {(~same).sum()} of {same.size} differ"


def check_simulated(results: dict, workers: int) -> None:
    """All means, and the memory of worker 0, are those of the simulated workers."""
    for spec, (means, memories, _) in results.items():
        compressor, first = get(spec), [jnp.asarray(array) for array in gradients(workers, 0)]
        state = initial(compressor, first, seed=11)
        for number in range(STEPS):
            expected, state = steps(compressor, [jnp.asarray(array) for array in gradients(workers, number)], state)
            for got, right in zip(means[number], expected, strict=True):
                same_bits(got, np.asarray(right[0]), f"{spec}, step {number}, leaf of {got.size}")
        for got, leaf in zip(memories, state["leaves"].get("memory", []), strict=True):
            same_bits(got, np.asarray(leaf[0]), f"{spec}, memory of {got.size}")
    assert results["int8+ef"][1], "error feedback has memories"


@pytest.mark.parametrize(
    "aggregator, workers",
    [
        ("embedded", 2),
        ("udp", 2),  # after embedded's: the simulation is compiled once for both
        pytest.param("embedded", 4, marks=pytest.mark.nightly),
        pytest.param("udp", 4, marks=pytest.mark.nightly),
    ],
)
def test_words_are_narrow_on_the_wire_with_the_bits_of_the_simulation(aggregator, workers, tmp_path):
    results = run(tmp_path / "means", "-n", workers, "--aggregator", aggregator, specs=tuple(BITS))
    check_simulated(results, workers)
    if aggregator == "embedded":  # there is no wire
        return
    example, blocks = [array[0] for array in gradients(1, 0)], sum(-(-size // 256) for size in SIZES)
    for spec, (_, _, sent) in results.items():
        traffic, _ = compressors.measure(get(spec), [example] * workers, jax.random.key(0))
        words = traffic.sent - blocks - len(SIZES)  # without the exponents and the simulation's flags
        filled = blocks * 256 * BITS[spec] // 8  # at most: a leaf's last block may be sent as a whole
        again = PASS_BYTES * sent["again"]  # at most
        assert STEPS * words <= sent[BITS[spec]] <= STEPS * filled + again, spec
        assert sent[24 - BITS[spec]] == 0, spec
        assert sent[32] <= PASS_BYTES + again, f"{spec} sends more in 32 bits than that one step is not finite"


def test_stochastic_rounding_and_several_devices_have_the_bits_of_the_wire(tmp_path):
    spec, seed = "int8:stochastic:seed=9223372036854775819", 2**63 + 11
    means, _, _ = run(tmp_path / "means", "-n", 2, "--devices-per-process", 2, specs=(spec,))[spec]
    for number in range(STEPS):
        block = 0
        for got, arrays in zip(means[number], gradients(4, number), strict=True):
            place = {"collective": number, "first_block": block, "devices_per_worker": 2}
            total = numerics.all_reduce_reference(list(arrays), bits=8, seed=seed, **place)
            right = total / np.float32(4) if np.isfinite(arrays).all() else np.full_like(total, np.nan)
            same_bits(got, right, f"step {number}, leaf of {got.size}")
            block += -(-got.size // 256)


def test_blocks_of_another_size_than_the_job_s_are_summed_as_int32(tmp_path):
    results = run(
        tmp_path / "means", "-n", 2, "--aggregator", "udp", specs=("int8", "int8+ef"), JAXINA_BLOCK_SIZE="512"
    )
    check_simulated(results, 2)
    assert all(sent[8] == 0 and sent[32] >= STEPS * 4 * sum(SIZES) for _, _, sent in results.values())


def test_loops_meters_and_simulations_inside_a_job():
    """JAX traces the body of a scan anew when it lowers it. Workers of `jax.vmap` are summed within a device."""
    program = """
import jax, jaxina, numpy as np
from jax.sharding import PartitionSpec as P
from jaxina import compressors, numerics

jax.config.update("jax_num_cpu_devices", 2)
compressor, x = compressors.get("int8"), np.random.default_rng(1).normal(size=(2, 5000)).astype(np.float32)
with jaxina.init():
    def update(x):
        return compressor.update(x, compressor.init(x, jax.random.key(0)), "data")[0]

    def scanned(x):
        return jax.lax.scan(lambda carry, _: (carry, update(x)), 0, length=2)[1][1]

    mesh = jax.make_mesh((2,), ("data",))
    placed = jax.device_put(x, jax.NamedSharding(mesh, P("data")))

    def mapped(body):
        program = jax.shard_map(lambda x: body(x[0]), mesh=mesh, in_specs=P("data"), out_specs=P())
        return np.asarray(jax.jit(program)(placed))

    expected = numerics.all_reduce_reference(list(x), bits=8, devices_per_worker=2) / 2
    for body in (update, scanned):
        for bits in (8, 64):  # the compressor's own counts
            with jaxina.collectives(bits=bits):
                np.testing.assert_array_equal(mapped(body), expected)
    meter = compressors.Meter(compressor)

    def counted(x):
        arrays = meter.update(x[0], compressor.init(x[0], jax.random.key(0)), "data")[2]
        return jax.tree.map(lambda array: array[None], arrays)

    specs = {"in_specs": P("data"), "out_specs": P("data"), "check_vma": False}
    traffic = meter.traffic(jax.jit(jax.shard_map(counted, mesh=mesh, **specs))(placed))
    flag = 1  # of the simulation
    simulation = compressors.measure(compressor, list(x), jax.random.key(0))[0]
    assert (traffic.sent, traffic.received) == (simulation.sent - flag, simulation.received - flag), traffic
    simulated = np.asarray(jax.jit(jax.vmap(update, axis_name="data"))(x))[0]
    with jaxina.collectives(False):
        elsewhere = mapped(update)
np.testing.assert_array_equal(simulated, numerics.all_reduce_reference(list(x), bits=8) / 2)
np.testing.assert_array_equal(elsewhere, simulated)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("spec", ["randomk:0.9", "powersgd:2", "int8"])
@pytest.mark.parametrize(
    "size, scope",
    [
        (100, {"bits": 8, "smallest": 0}),
        (1e10, {}),
        pytest.param(1e10, {"carried": False}, marks=pytest.mark.nightly),
    ],
)
@pytest.mark.usefixtures("job")
def test_one_worker_s_nan_reaches_all_beside_large_values(spec, size, scope):
    """Where jaxina carries a float32 sum, the flag shares its exponent with the payloads of all leaves."""
    compressor = get(spec)
    healthy = size * np.random.default_rng(0).uniform(0.5, 1, (DEVICES, 2, 32, 32)).astype(np.float32)
    poisoned = healthy.copy()
    poisoned[3, 0, 5, 7] = np.nan

    def update(x):
        leaves = {"first": x[0, 0], "second": x[0, 1]}
        return compressor.update(leaves, compressor.init(leaves, jax.random.key(0)), "w")[0]

    program = jax.jit(sharded(update, outs=P(), vma=False))
    with jaxina.collectives(True), jaxina.collectives(**scope):
        mean, without = program(on_devices(poisoned)), program(on_devices(healthy))
    assert np.isnan(mean["first"]).all()
    assert np.isfinite([mean["second"], without["first"], without["second"]]).all()
