"""The MNIST example with XLA's own collective: what it prints and writes, and that it is reproducible."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import quick_compilation
from patience import PATIENCE

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "mnist"


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in the example's folder, without the variables of other tests or of a launcher."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JAXINA_", "XLA_"))}
    environment["PYTHONPATH"] = str(FOLDER.parent)  # so that `shared` is found; train.py adds the folder itself
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=FOLDER,
        env=environment | quick_compilation.VARIABLES,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def train(result: Path, *options: str) -> dict:
    done = run_python("train.py", "--steps", "12", "--json", str(result), *options)
    assert done.returncode == 0, done.stderr
    document = json.loads(result.read_text())
    assert document["parameter_sha256"][:16] in done.stdout
    return document


@pytest.fixture(scope="module")
def of_four_devices(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, Path]:
    """What a training on four devices wrote: its results, and its curves."""
    folder = tmp_path_factory.mktemp("four")
    picture = folder / "curves.png"
    return train(folder / "four.json", "--devices", "4", "--plot", str(picture)), picture


def test_same_seed_same_parameters_other_seed_other_parameters(
    of_four_devices: tuple[dict, Path], tmp_path: Path
) -> None:
    first, picture = of_four_devices
    again = train(tmp_path / "b.json", "--devices", "4")
    other = train(tmp_path / "c.json", "--devices", "4", "--seed", "1")
    assert first["parameter_sha256"] == again["parameter_sha256"]
    assert first["parameter_sha256"] != other["parameter_sha256"]
    assert first["loss"] == again["loss"]
    assert first["devices"] == 4 and first["processes"] == 1
    assert len(first["loss"]) == len(first["accuracy"]) == len(first["step_seconds"]) == 12
    assert first["loss"][-1] < first["loss"][0] < 3
    assert first["test_accuracy"] > 0.5
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_gradients_are_averaged_over_devices(of_four_devices: tuple[dict, Path], tmp_path: Path) -> None:
    """The number of devices that share the global batch makes no difference: the losses agree up to rounding."""
    one = train(tmp_path / "one.json", "--devices", "1")
    four, _ = of_four_devices
    assert four["loss"] == pytest.approx(one["loss"], rel=1e-3)


def test_a_batch_that_cannot_be_shared_equally_is_refused() -> None:
    done = run_python("train.py", "--devices", "4", "--batch-size", "10")
    assert done.returncode != 0
    assert "--batch-size 10 must be a multiple of the 4 devices" in done.stderr


def test_digits_are_split_without_overlap_and_the_same_each_time() -> None:
    script = """
import numpy as np
from shared.digits import load_digits, shuffled_batches
training, test = load_digits()
assert training.images.shape == (4000, 28, 28, 1) and test.images.shape == (1000, 28, 28, 1)
assert training.images.dtype == np.float32
assert training.images.min() == 0 and training.images.max() == 1
both = np.concatenate([training.labels, test.labels])
assert np.array_equal(np.bincount(both), [500] * 10)
rows = lambda digits: {image.tobytes() for image in digits.images}
assert len(rows(training)) == 4000 and len(rows(test)) == 1000
assert not rows(training) & rows(test)
assert np.array_equal(load_digits()[1].labels, test.labels)
batches = shuffled_batches(training, 1500, seed=3)
first, second, next_epoch = next(batches), next(batches), next(batches)
assert not rows(first) & rows(second), "an epoch repeats a digit"
assert not np.array_equal(first.labels, next_epoch.labels), "every epoch has the same order"
"""
    done = run_python("-c", script)
    assert done.returncode == 0, done.stderr


def test_values_that_differ_between_devices_are_noticed() -> None:
    script = """
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
from shared.data_parallel import replicated_hash
jax.config.update("jax_num_cpu_devices", 2)
mesh = jax.make_mesh((2,), ("data",))
sharding = NamedSharding(mesh, P())
def copies(*values):
    return {"w": jax.make_array_from_single_device_arrays(
        (3,), sharding, [jax.device_put(np.full(3, v, np.float32), d) for v, d in zip(values, jax.devices())])}
one, again, other = (replicated_hash(copies(v, v), mesh) for v in (1, 1, 2))
assert one == again != other
try:
    replicated_hash(copies(1, 2), mesh)
except RuntimeError as error:
    assert "different values" in str(error)
else:
    raise SystemExit("different values were not noticed")
"""
    done = run_python("-c", script)
    assert done.returncode == 0, done.stderr
