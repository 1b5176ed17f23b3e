"""Training that survives the death of a worker: one process is killed, the others go on from the last checkpoint.

    python examples/recovery/train.py --workers 3 --kill 1 --at 12              # the survivors go on
    python examples/recovery/train.py --workers 3 --kill 1 --at 12 --replace    # a replacement joins them

Worker 0 saves an orbax checkpoint every few steps. When a worker dies, the psum of all others raises
`WorkerLostError`. Each survivor then leaves the job and replaces its own process by a new one (`exec`), which starts
JAX with the other members.

The batch of a step depends on the step's number alone and is split over the workers that are there. So the loss curve
goes on from the checkpoint as if no worker had died: to the same bits with as many workers as before, up to rounding
with fewer.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import checkpoints
import jax
import jax.numpy as jnp
import numpy as np
import optax
import regroup
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxina

FEATURES, CLASSES, BATCH = 64, 10, 240  # 1 to 6 workers can share 240 rows equally
SAVE_EVERY = 5


def batch_of(step: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the global batch of a step, the same in every process: float32 [BATCH, FEATURES] and int32 [BATCH]."""
    centres = np.random.default_rng(2024).normal(size=(CLASSES, FEATURES))
    draw = np.random.default_rng(step)
    labels = draw.integers(0, CLASSES, BATCH).astype(np.int32)
    return (centres[labels] + 2 * draw.normal(size=(BATCH, FEATURES))).astype(np.float32), labels


def first_state(optimizer: optax.GradientTransformation) -> dict[str, Any]:
    """Returns the parameters and the optimizer's state before the first step, the same in every process."""
    draw = np.random.default_rng(7)
    params = {
        "hidden": (draw.normal(size=(FEATURES, 32)) / 8).astype(np.float32),
        "out": (draw.normal(size=(32, CLASSES)) / 6).astype(np.float32),
    }
    return jax.device_get({"params": params, "optimizer": optimizer.init(params)})


def make_step(mesh: Mesh, optimizer: optax.GradientTransformation) -> Any:
    """Returns a jitted step over the global batch. lax.pmean averages the gradients of the devices' shares."""

    def loss_of(params: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
        logits = jnp.tanh(images @ params["hidden"]) @ params["out"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    def step(state: Any, images: jax.Array, labels: jax.Array) -> tuple[Any, jax.Array]:
        # "varying" parameters get each device's own gradients, which the pmean averages.
        local = jax.lax.pcast(state["params"], "data", to="varying")
        loss, gradients = jax.lax.pmean(jax.value_and_grad(loss_of)(local, images, labels), "data")
        updates, optimizer_state = optimizer.update(gradients, state["optimizer"], state["params"])
        return {"params": optax.apply_updates(state["params"], updates), "optimizer": optimizer_state}, loss

    sharded = jax.shard_map(step, mesh=mesh, in_specs=(P(), P("data"), P("data")), out_specs=(P(), P()))
    return jax.jit(sharded)


def train(folder: Path, steps: int, dies_at: int | None) -> None:
    """Trains as one worker, from the newest checkpoint to the last step.

    Raises:
      WorkerLostError: another worker has died.
    """
    me = jax.process_index()
    mesh = Mesh(np.array(jax.devices()), ("data",))
    optimizer = optax.adam(3e-3)
    state, start = first_state(optimizer), 0
    if (saved := checkpoints.latest(folder / "checkpoints")) is not None:
        state, start = checkpoints.restore(folder / "checkpoints", saved, state, me), saved

    def put(value: np.ndarray, spec: P) -> jax.Array:
        return jax.make_array_from_callback(value.shape, NamedSharding(mesh, spec), lambda index: value[index])

    step_of = make_step(mesh, optimizer)
    state = jax.tree.map(lambda value: put(np.asarray(value), P()), state)
    for step in range(start, steps):
        if step == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        images, labels = batch_of(step)
        with jaxina.errors.typed():
            state, loss = step_of(state, put(images, P("data")), put(labels, P("data")))
            record = {"step": step, "loss": float(loss), "workers": jax.process_count()}  # float waits for the step
        if me == 0:
            with (folder / "loss.jsonl").open("a") as log:
                log.write(json.dumps(record) + "\n")
            if (step + 1) % SAVE_EVERY == 0:
                with jaxina.errors.typed():
                    host = jax.tree.map(lambda value: np.asarray(value.addressable_data(0)), state)
                checkpoints.save(folder / "checkpoints", step + 1, host, me)
    with jaxina.errors.typed():
        jax.block_until_ready(state)


def live(arguments: argparse.Namespace) -> None:
    """Runs one life of a worker. If another worker dies, this process starts its next life in its own place."""
    os.environ |= regroup.meet(arguments.folder, arguments.life, arguments.name, arguments.workers)
    jaxina.init(join_timeout=60, timeout=60)
    dies = arguments.life == 0 and arguments.kill == int(os.environ["JAXINA_RANK"])
    try:
        train(arguments.folder, arguments.steps, arguments.at if dies else None)
    except jaxina.errors.WorkerLostError as error:
        print(f"{arguments.name}: {error}", file=sys.stderr, flush=True)
        jaxina.shutdown()
        # Nobody knows yet which workers are left. The next life consists of those that come to regroup.meet.
        next_life = ("--life", str(arguments.life + 1), "--name", arguments.name)
        os.execv(sys.executable, [sys.executable, *_worker(arguments, *next_life)])
    jaxina.shutdown()


def _worker(arguments: argparse.Namespace, *own: str) -> list[str]:
    shared = ("workers", "steps", "kill", "at", "folder")
    options = [part for name in shared for part in (f"--{name}", str(getattr(arguments, name)))]
    return [str(Path(__file__).resolve()), *options, *own]


def launch(arguments: argparse.Namespace) -> int:
    """Starts the workers and, with --replace, a replacement for the one that is killed. Returns the exit code."""

    names: dict[int, str] = {}  # of the workers, by process id

    def start(name: str, life: int) -> None:
        command = [sys.executable, *_worker(arguments, "--life", str(life), "--name", name)]
        names[os.spawnv(os.P_NOWAIT, sys.executable, command)] = name

    for number in range(arguments.workers):
        start(f"worker-{number}", 0)
    code = 0
    while names:
        pid, status = os.wait()
        del names[pid]
        ended = os.waitstatus_to_exitcode(status)
        if ended == -signal.SIGKILL and arguments.replace:
            start("replacement", 1)
        elif ended != -signal.SIGKILL:
            code = max(code, abs(ended))
    regroup.end_coordinators(arguments.folder)
    return code


def curve(folder: Path) -> list[float]:
    """Returns the loss of each step. Of a step that was repeated, the last loss counts."""
    records = [json.loads(line) for line in (folder / "loss.jsonl").read_text().splitlines()]
    losses = {record["step"]: record["loss"] for record in records}
    return [losses[step] for step in sorted(losses)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--kill", type=int, default=-1, help="the worker that is killed; -1: none")
    parser.add_argument("--at", type=int, default=12, help="the step at which it is killed")
    parser.add_argument("--replace", action="store_true", help="start another worker for the one that died")
    parser.add_argument("--folder", type=Path, help="for checkpoints and losses; by default a temporary one")
    parser.add_argument("--life", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--name", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.name:
        return live(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        arguments.folder = arguments.folder or Path(temporary)
        code = launch(arguments)
        if code == 0:
            losses = curve(arguments.folder)
            print(f"{len(losses)} steps, loss {losses[0]:.4f} to {losses[-1]:.4f}")
    sys.exit(code)


if __name__ == "__main__":
    main()
