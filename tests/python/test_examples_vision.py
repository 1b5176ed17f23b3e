"""examples/vision: it trains alike with XLA and with jaxina, and BatchNorm's means are those of the global batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import quick_compilation
from patience import PATIENCE

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "vision" / "train.py"


def run(*command: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JAXINA_", "XLA_"))}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=EXAMPLE.parent,
        env=environment | quick_compilation.VARIABLES,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def train(file: Path, *options: str, workers: int = 0) -> dict[str, Any]:
    start = ["-m", "jaxina.cli", "run", "-n", str(workers)] if workers else []
    out = run(*start, str(EXAMPLE), "--steps", "5", "--batch-size", "32", "--json", str(file), *options)
    return {**json.loads(file.read_text()), "out": out}


@pytest.mark.nightly  # examples/mnist and examples/gpt are trained so in each run of CI
def test_two_workers_train_as_one_process_with_two_devices_would(tmp_path: Path) -> None:
    by_jaxina = train(tmp_path / "jaxina.json", "--collective", "jaxina", workers=2)
    by_xla = train(tmp_path / "xla.json", "--devices", "2")
    assert by_jaxina["loss"] == pytest.approx(by_xla["loss"], rel=1e-3)
    assert (by_jaxina["processes"], by_jaxina["devices"]) == (2, 2)
    assert "jit_train_step: carries" in by_jaxina["out"]
    assert "with XLA" not in by_jaxina["out"]


SYNCHRONIZED = """
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_num_cpu_devices", 4)
from jax.sharding import NamedSharding, PartitionSpec as P
from network import ResidualNetwork

network = ResidualNetwork("data", widths=(4, 8))
images = np.random.default_rng(0).normal(size=(16, 28, 28, 1)).astype(np.float32)
images *= np.arange(1, 17, dtype=np.float32)[:, None, None, None]
variables = network.init(jax.random.key(0), images[:1], training=False)

def statistics(devices):
    mesh = jax.make_mesh((devices,), ("data",), devices=jax.devices()[:devices])
    step = lambda images: network.apply(variables, images, training=True, mutable=["batch_stats"])[1]["batch_stats"]
    rows = jax.device_put(images, NamedSharding(mesh, P("data")))
    return jax.jit(jax.shard_map(step, mesh=mesh, in_specs=P("data"), out_specs=P()))(rows)

# Each device's share of the batch has another spread.
for one, four in zip(jax.tree.leaves(statistics(1)), jax.tree.leaves(statistics(4)), strict=True):
    np.testing.assert_allclose(one, four, rtol=1e-4, atol=1e-5)
"""


def test_batch_statistics_are_those_of_the_global_batch() -> None:
    run("-c", SYNCHRONIZED)
