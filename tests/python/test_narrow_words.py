"""Words of 8 and 16 bits: all transports give the bits of `jaxina.numerics`, and small arrays keep 32 bits."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import narrow_program
import numpy as np
import pytest
from patience import PATIENCE

import jaxina
from jaxina import _tracing_settings, numerics
from jaxina.errors import InvalidArgumentError

JAXINA = Path(sys.executable).with_name("jaxina")
PROCESSES, DEVICES = 2, 2  # devices in each process


def run(file: Path, *options: object, processes: int = PROCESSES, devices: int = DEVICES, **environment: str) -> dict:
    command = [
        JAXINA,
        "run",
        "-n",
        processes,
        *options,
        "--devices-per-process",
        devices,
        sys.executable,
        narrow_program.__file__,
        file,
    ]
    done = subprocess.run(
        [str(part) for part in command],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return pickle.loads(file.read_bytes())


def expected(arrays: list[np.ndarray], bits: int, rounding: str, collective: int, devices: int) -> list[np.ndarray]:
    """The sums of the arrays of one collective, whose narrow blocks are numbered through all of them."""
    sums, block = [], 0
    for array in arrays:
        narrow = array.shape[1] >= 4096
        sums.append(
            numerics.all_reduce_reference(
                list(array),
                bits=bits if narrow else 32,
                devices_per_worker=devices,
                seed=narrow_program.SEED if rounding == "stochastic" else None,
                collective=collective,
                first_block=block,
            )
        )
        block += -(-array.shape[1] // numerics.DEFAULT_BLOCK_SIZE) if narrow else 0
    return sums


def check(results: dict, processes: int = PROCESSES, devices: int = DEVICES) -> None:
    arrays = narrow_program.inputs(processes * devices)
    for number, (case, (floats, integers, narrow_floats)) in enumerate(results.items()):
        bits, rounding = case
        np.testing.assert_array_equal(integers, processes * devices * np.arange(6000))
        both = [*arrays, *map(to_bfloat16, arrays)]
        want = expected(both, bits, rounding, number, devices)
        for got, right in zip(floats, want[: len(arrays)], strict=True):
            np.testing.assert_array_equal(got.view(np.uint32), right.view(np.uint32), err_msg=f"{case}")
        for got, right in zip(narrow_floats, want[len(arrays) :], strict=True):
            np.testing.assert_array_equal(got.astype(np.float32), to_bfloat16(right), err_msg=f"{case}, bfloat16")


def to_bfloat16(array: np.ndarray) -> np.ndarray:
    """Rounds float32 to bfloat16's values."""
    return array.astype(ml_dtypes.bfloat16).astype(np.float32)


@pytest.mark.parametrize("aggregator", ["embedded", "udp", "direct", "roce"])
def test_all_transports_give_the_bits_of_the_reference(aggregator: str, tmp_path: Path) -> None:
    check(run(tmp_path / "sums", "--aggregator", aggregator))


def test_slots_chunks_and_losses_do_not_change_the_bits(tmp_path: Path) -> None:
    check(
        run(tmp_path / "sums", "--aggregator", "udp", "--loss", "0.05", JAXINA_SLOTS="3", JAXINA_BLOCKS_PER_CHUNK="2"),
    )


def test_a_group_within_one_process(tmp_path: Path) -> None:
    check(run(tmp_path / "sums", processes=1, devices=3), processes=1, devices=3)


def test_switches_on_the_way_send_narrow_words_on(tmp_path: Path) -> None:
    check(run(tmp_path / "sums", "--aggregator", "atp"))


def test_a_job_may_set_them(tmp_path: Path) -> None:
    """A scope that says nothing keeps the job's setting, and one that does overrides it."""
    program = """
import jax, jaxina, numpy as np
from jax.sharding import PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 2)
for bits, rounding in ((8, "nearest"), (16, "stochastic")):
    with jaxina.init(bits=bits, rounding=rounding) as job:
        mesh = jax.make_mesh((2,), ("data",))
        x = np.random.default_rng(1).normal(size=(2, 5000)).astype(np.float32)
        placed = jax.device_put(x, jax.NamedSharding(mesh, P("data")))
        summed = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, "data"), mesh=mesh, in_specs=P("data"), out_specs=P()))
        total = lambda: np.asarray(summed(placed))[0]
        step = 2.0 ** (-bits + 3)
        error = np.abs(total() - x.sum(0)).max()
        assert step / 8 < error < 8 * step, (bits, error)
        with jaxina.collectives(bits=32):
            assert np.abs(total() - x.sum(0)).max() < 1e-6
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"carried": 8}, "carried must be True, False or None, not 8"),  # meant for bits
        ({"carried": "no"}, "carried must be True, False or None, not 'no'"),
        ({"bits": 12}, "bits must be 8, 16, 32 or 64, not 12"),
        ({"rounding": "up"}, "rounding must be 'nearest' or 'stochastic', not 'up'"),
        ({"smallest": -1}, "smallest must be an integer from 0"),
        ({"seed": 2**64}, "seed must be an integer from 0"),
        ({"bits": 8.0}, "bits must be 8, 16, 32 or 64, not 8.0"),
        ({"smallest": "x"}, "smallest must be an integer from 0 to below 9223372036854775808, not 'x'"),
        ({"smallest": 4096.9}, "smallest must be an integer .* not 4096.9"),
        ({"seed": 1.7}, "seed must be an integer .* not 1.7"),
        ({"bucket_bytes": -5}, "bucket_bytes must be an integer .* not -5"),
        ({"bucket_bytes": 4e6}, "bucket_bytes must be an integer .* not 4000000.0"),
    ],
)
def test_bad_settings_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        jaxina.collectives(**arguments)


def test_numpy_s_integers_are_settings() -> None:
    given = {"bits": np.int64(8), "smallest": np.uint8(7), "seed": np.uint64(2**64 - 1), "bucket_bytes": np.int32(0)}
    with jaxina.collectives(**given):
        assert _tracing_settings.precision.value == _tracing_settings.Precision(8, "nearest", 7, 2**64 - 1)
        assert _tracing_settings.precision.value.numbers == [8, 7, 0, -1]


def test_processes_with_other_settings_do_not_start(tmp_path: Path) -> None:
    program = "import os, jaxina; jaxina.init(bits=8 if os.environ['JAXINA_RANK'] == '0' else 16)"
    done = subprocess.run(
        [str(JAXINA), "run", "-n", "2", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    message = "MISMATCH: process 0 has bits=8 but process 1 has 16"
    assert all(f"[{rank}] jaxina: {message}" in done.stdout + done.stderr for rank in (0, 1)), done.stdout + done.stderr
