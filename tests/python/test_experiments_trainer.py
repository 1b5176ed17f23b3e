"""The data-parallel trainer, on a problem that is small enough to train without it and compare."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

pytest.importorskip("flax")
pytest.importorskip("optax")

ROOT = Path(__file__).resolve().parents[2]

# Programs run in processes of their own, because the number of devices cannot be changed once JAX has started.
LINE = """
import functools, sys, time
import jax, jax.numpy as jnp, numpy as np, optax
from flax import nnx
sys.path.insert(0, sys.argv[1])
import experiments.adaptive_shift
from experiments.trainer import Programs, Trainer
from experiments.workloads.base import Lengths, Workload, shuffled
import jaxina
from jaxina import compressors

rng = np.random.default_rng(0)
inputs = rng.normal(size=(64, 5)).astype(np.float32)
DATA = {"x": inputs, "y": inputs @ np.float32([1, -2, 3, 0, 0.5])}

class Line(Workload):
    metric, higher_is_better, lengths, batch_size = "error", False, Lengths(12, 12), 16
    def network(self, rngs): return nnx.Linear(5, 1, rngs=rngs)
    def loss(self, network, batch): return ((network(batch["x"])[:, 0] - batch["y"]) ** 2).mean()
    def batches(self, seed): return shuffled(DATA, 16, seed)
    def held_out(self, split): return [DATA]
    def predict(self, network, batch): return network(batch["x"])[:, 0] - batch["y"]
    def score(self, predictions): return float(np.mean(np.square(predictions)))
    def optimizer(self, steps, momentum): return optax.sgd(0.1, momentum=0.5 if momentum else None)

def alone(steps):
    # The same training, but without workers, compressors or meshes.
    work, batches = Line(), Line().batches(3)
    network = work.network(nnx.Rngs(jax.random.key(3)))
    graph, params = nnx.split(network)
    optimizer = work.optimizer(steps, True)
    state, losses = optimizer.init(params), []
    for _ in range(steps):
        batch = next(batches)
        loss, grads = jax.value_and_grad(lambda p: work.loss(nnx.merge(graph, p), batch))(params)
        updates, state = optimizer.update(grads, state, params)
        params = optax.apply_updates(params, updates)
        losses.append(float(loss))
    return losses
"""

IN_ONE_PROCESS = """
programs = Programs(Line(), 4)

def run(spec, scale=1.0, collectives=functools.partial(jaxina.collectives, False)):
    return Trainer(programs, compressors.get(spec), 12, collectives).run(3, scale, "test", evaluations=3)

expected = alone(12)
exact = run("none")
np.testing.assert_allclose(exact.losses, expected, rtol=1e-4)
assert [step for step, _ in exact.scores] == [4, 8, 12] and not exact.diverged
assert exact.sent == exact.received == 4 * 6
np.testing.assert_allclose(run("int32").losses, expected, rtol=1e-4)

sparse = run("topk:0.2")
assert abs(sparse.losses[0] - exact.losses[0]) < 1e-6 and abs(sparse.losses[-1] / exact.losses[-1] - 1) > 0.01
assert sparse.losses[-1] < sparse.losses[0]
assert sparse.received == 3 * sparse.sent

run("powersgd:1"), run("qsgd:8"), run("efsignsgd")

# Now jaxina carries the sums. Integers are summed exactly by whatever carries them, and jaxina sums float32 as int32
# block fixed point. So the losses must be equal. The counters must show that jaxina carried the sums, because with six
# numbers rounded to 31 bits the losses may be equal without jaxina, too.
job = jaxina.init()

def carried(spec):
    before = job.statistics()["collectives"]
    losses = run(spec, collectives=jaxina.collectives).losses
    assert job.statistics()["collectives"] >= before + 12
    return losses

assert carried("int32") == run("int32").losses == carried("none")
assert carried("blockfp:8:stochastic") == run("blockfp:8:stochastic").losses != exact.losses

# No aggregator has an adaptive shift: jaxina carries its words as integers.
assert carried("adaptive8") == run("adaptive8").losses != exact.losses

# Narrow words are rounded by jaxina itself then. The four devices are one worker, whose sum is shifted as that of four.
narrow = carried("int8")
assert narrow == run("int8").losses != carried("none")
np.testing.assert_allclose(narrow, expected, rtol=0.05)

# A step's time holds its batch and its loss: the links of a testbed rest while neither is sent.
class Slow(Line):
    def batches(self, seed):
        for batch in super().batches(seed):
            time.sleep(0.05)
            yield batch
slow = Programs(Slow(), 4)
mean = slow.mean
slow.mean = lambda losses: (time.sleep(0.05), mean(losses))[1]
assert min(Trainer(slow, compressors.get("none"), 4).run(3, 1.0, "test", evaluations=1).step_seconds) >= 0.1

gone = run("none", scale=1e20)
assert gone.diverged and len(gone.losses) < 12 and gone.scores[-1][1] is None

# A metric need not show that a model has become NaN. This one shows nothing.
class Blind(Line):
    def score(self, predictions): return 1.0
blind = Programs(Blind(), 4)
params = blind.parameters(jax.random.key(0))
assert blind.score(params, "test") == 1.0
assert blind.score(jax.tree.map(lambda leaf: leaf * jnp.nan, params), "test") is None
print("done")
"""

IN_A_JOB = """
job = jaxina.init()
programs = Programs(Line(), jax.device_count())
expected = alone(12)

def run(spec, scale=1.0):
    carrier = functools.partial(jaxina.collectives, spec != "none")
    return Trainer(programs, compressors.get(spec), 12, carrier).run(3, scale, "test", evaluations=3)

for spec in ("none", "int32"):
    outcome = run(spec)
    np.testing.assert_allclose(outcome.losses, expected, rtol=1e-4)
    assert len(outcome.step_seconds) == 12 and len(outcome.scores) == 3 and outcome.sent is None
assert run("topk:0.2").losses[-1] < expected[0]
gone = run("none", scale=1e20)  # all processes end it at the same step
assert gone.diverged and len(gone.losses) < 12
print("done")
"""


def check(command: list, program: str, folder: Path) -> list[str]:
    file = folder / "program.py"
    file.write_text(program)
    done = subprocess.run(
        [*command, file, ROOT],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=folder,
        # Compiling takes most of the time, so optimization is off.
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_backend_optimization_level=0"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def test_workers_train_as_one_would(tmp_path):
    devices = 'jax.config.update("jax_num_cpu_devices", 4)\n'
    assert check([sys.executable, "-W", "error"], LINE + devices + IN_ONE_PROCESS, tmp_path) == ["done"]


def test_workers_of_several_processes_train_as_one_would(tmp_path):
    launcher = [Path(sys.executable).with_name("jaxina"), "run", "-n", "2"]
    assert sorted(check(launcher, LINE + IN_A_JOB, tmp_path)) == ["[0] done", "[1] done"]


FREE_AND_TAKE = """
import ctypes, resource, sys
sys.path.insert(0, sys.argv[1])
from experiments.allocator import like_a_worker

like_a_worker()

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes, libc.memset.argtypes = [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]

def faults(times, size=64 << 20):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        buffer = libc.malloc(size)
        libc.memset(buffer, 1, size)
        libc.free(buffer)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults(1)
print("kept" if faults(3) < 16 else "dropped")
"""


def test_freed_memory_is_kept_for_the_next_step(tmp_path):
    assert check([sys.executable], FREE_AND_TAKE, tmp_path) == ["kept"]
