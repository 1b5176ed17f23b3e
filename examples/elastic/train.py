"""Training that goes on in the same processes when a worker dies, and takes a replacement in.

    python examples/elastic/train.py --workers 4 --kill 1 --at 12              # the survivors go on
    python examples/elastic/train.py --workers 4 --kill 1 --at 12 --replace    # a replacement joins them

The workers are members of a team (`jaxina.elastic`), kept together by `jaxina keeper`. Nobody starts JAX again, and
nobody reads a checkpoint: the survivors repeat the step that was under way, and the replacement gets the state from one
of them.

The batch of a step consists of parts of equal size, which the members share: of n members, the one of rank r computes
the parts r, r + n, r + 2n and so on. So no program is compiled again for another number of members.

At the end, all members have the same parameters, bit for bit. They are also those of a replay (replay.py): one process
that computes the steps one after the other, with as many shares in each step as there were members, and sums by
jaxina's readable reference.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

import jaxina.elastic
from jaxina.elastic import Turn

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the folder of `shared`

from shared.digits import load_digits
from shared.options import positive

PARTS, ROWS = 12, 10  # of a batch: parts, and rows of each

State = dict[str, Any]


class Network(nnx.Module):
    """Two dense layers, 50,890 parameters."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.hidden = nnx.Linear(784, 64, rngs=rngs)
        self.out = nnx.Linear(64, 10, rngs=rngs)

    def __call__(self, images: jax.Array) -> jax.Array:
        """Maps images, float32 [n, 28, 28, 1], to logits, float32 [n, 10]."""
        return self.out(nnx.relu(self.hidden(images.reshape(len(images), -1))))


class Training:
    """The programs of a step.

    Args:
      all_reduce: sums a pytree over the members.
    """

    def __init__(self, all_reduce: Callable[[Any], Any] = jaxina.elastic.all_reduce) -> None:
        self._optimizer = optax.adam(2e-3)
        self._graph, self._first = nnx.split(Network(nnx.Rngs(0)))
        self._digits, self._test = load_digits()
        self._gradients = jax.jit(self._add_gradients)
        self._update = jax.jit(lambda state, own: self._updated(state, all_reduce(own)))

    def first_state(self) -> State:
        """The state before the first step."""
        return {"params": self._first, "optimizer": self._optimizer.init(self._first)}

    def share(self, state: State, turn: Turn) -> Any:
        """The sums of loss and gradients over a member's parts of the batch."""
        batch = np.random.default_rng(turn.step).permutation(len(self._digits))[: PARTS * ROWS]
        own = (jnp.float32(0), jax.tree.map(jnp.zeros_like, state["params"]))
        for part in range(turn.rank, PARTS, turn.size):
            rows = batch[part * ROWS : (part + 1) * ROWS]
            own = self._gradients(own, state["params"], self._digits.images[rows], self._digits.labels[rows])
        return own

    def update(self, state: State, own: Any) -> tuple[State, jax.Array]:
        """Sums the shares, and returns the new state and the mean loss."""
        return self._update(state, own)

    def step(self, state: State, turn: Turn) -> tuple[State, jax.Array]:
        """A step, as `jaxina.elastic.steps` calls it."""
        return self.update(state, self.share(state, turn))

    def accuracy(self, state: State) -> float:
        """The share of the test digits that are classified correctly."""
        logits = nnx.merge(self._graph, state["params"])(self._test.images)
        return float((logits.argmax(-1) == self._test.labels).mean())

    def _add_gradients(self, own: Any, params: Any, images: jax.Array, labels: jax.Array) -> Any:
        def loss_of(params: Any) -> jax.Array:
            logits = nnx.merge(self._graph, params)(images)
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).sum()

        return jax.tree.map(jnp.add, own, jax.value_and_grad(loss_of)(params))

    def _updated(self, state: State, total: Any) -> tuple[State, jax.Array]:
        loss, gradients = jax.tree.map(lambda value: value / (PARTS * ROWS), total)
        updates, optimizer = self._optimizer.update(gradients, state["optimizer"], state["params"])
        return {"params": optax.apply_updates(state["params"], updates), "optimizer": optimizer}, loss


def hash_of(state: State) -> str:
    """SHA-256 over the bytes of all parameters."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(state["params"]):
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()


def work(arguments: argparse.Namespace) -> None:
    """Trains as one member. Writes a line for each step, and one for the end."""
    training = Training()
    with (arguments.folder / f"{arguments.name}.jsonl").open("w") as log:

        def write(**record: Any) -> None:
            print(json.dumps({**record, "time": time.time()}), file=log, flush=True)

        state = training.first_state()
        dies = arguments.name == f"worker-{arguments.kill}"

        def step(state: State, turn: Turn) -> tuple[State, jax.Array]:
            own = training.share(state, turn)
            if dies and turn.step == arguments.at:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(arguments.pause)
            return training.update(state, own)

        for done in jaxina.elastic.steps(step, state, until=arguments.steps):
            state = done.state
            write(step=done.step, size=done.size, rank=done.rank, loss=float(done.result))
        write(sha256=hash_of(state), accuracy=training.accuracy(state))


# ---- the launcher


def start_keeper(arguments: argparse.Namespace) -> tuple[subprocess.Popen[str], str]:
    """Starts the keeper. Returns it, and its address."""
    numbers = ["-n", str(arguments.workers), "--least", str(arguments.least)]
    command = [sys.executable, "-m", "jaxina.cli", "keeper", *numbers, "--quiet"]
    keeper = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert keeper.stdout is not None
    return keeper, keeper.stdout.readline().removeprefix("JAXINA_KEEPER=").partition(": ")[0]


def start_worker(name: str, keeper: str, arguments: argparse.Namespace) -> subprocess.Popen[bytes]:
    """Starts a member."""
    shared = ("steps", "kill", "at", "pause", "folder")
    options = [part for option in shared for part in (f"--{option}", str(getattr(arguments, option)))]
    command = [sys.executable, str(Path(__file__).resolve()), *options, "--name", name]
    return subprocess.Popen(command, env=os.environ | {"JAXINA_KEEPER": keeper})


def launch(arguments: argparse.Namespace) -> int:
    """Starts the keeper and the workers and, with --replace, a replacement for the one that is killed."""
    keeper, address = start_keeper(arguments)
    names = [f"worker-{number}" for number in range(arguments.workers)]
    running = {name: start_worker(name, address, arguments) for name in names}
    of_replacement = arguments.folder / "replacement.jsonl"
    code = 0
    while running:
        time.sleep(0.05)
        team_is_over = keeper.poll() is not None
        for name, process in list(running.items()):
            ended = process.poll()
            if ended is None:
                took_part = of_replacement.exists() and of_replacement.stat().st_size > 0
                if name == "replacement" and team_is_over and len(running) == 1 and not took_part:
                    print("the replacement came too late: the steps were done already", file=sys.stderr)
                    process.terminate()
                    process.wait()
                    del running[name]
                continue
            del running[name]
            if ended == -signal.SIGKILL and arguments.replace:
                running["replacement"] = start_worker("replacement", address, arguments)
            elif ended != -signal.SIGKILL:
                code = max(code, abs(ended))
    return max(code, abs(keeper.wait()))


def records_of(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What each member has written, by its name."""
    return {
        file.stem: [json.loads(line) for line in file.read_text().splitlines()]
        for file in sorted(folder.glob("*.jsonl"))
    }


def sizes_of(records: dict[str, list[dict[str, Any]]]) -> list[int]:
    """How many members computed each step that counts. All that took part in a step must say the same."""
    sizes: dict[int, set[int]] = {}
    for lines in records.values():
        for line in lines:
            if "step" in line:
                sizes.setdefault(line["step"], set()).add(line["size"])
    assert sorted(sizes) == list(range(len(sizes))), "a step is missing"
    assert all(len(said) == 1 for said in sizes.values()), "members disagree who computed a step"
    return [sizes[step].pop() for step in range(len(sizes))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=positive, default=4)
    parser.add_argument("--steps", type=positive, default=300)
    parser.add_argument("--kill", type=int, default=-1, help="the worker that is killed; -1: none")
    parser.add_argument("--at", type=int, default=12, help="the step in which it is killed")
    parser.add_argument("--replace", action="store_true", help="start another worker for the one that died")
    parser.add_argument("--least", type=positive, default=1, help="with fewer workers the others wait")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that each step waits, to watch it")
    parser.add_argument("--folder", type=Path, help="for the records of all members; by default a temporary one")
    parser.add_argument("--name", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.name:
        return work(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        arguments.folder = arguments.folder or Path(temporary)
        arguments.folder.mkdir(parents=True, exist_ok=True)
        if code := launch(arguments):
            sys.exit(code)
        records = records_of(arguments.folder)
    sizes, ends = sizes_of(records), [lines[-1] for lines in records.values() if lines and "sha256" in lines[-1]]
    losses = [line["loss"] for lines in records.values() for line in lines if line.get("step") in (0, len(sizes) - 1)]
    print(f"{len(sizes)} steps with {' and '.join(map(str, dict.fromkeys(sizes)))} members")
    print(f"loss {max(losses):.3f} to {min(losses):.3f}, test accuracy {100 * ends[0]['accuracy']:.1f} %")
    from replay import replay

    hashes = {end["sha256"] for end in ends} | {replay(sizes)}
    print(f"parameters of {len(ends)} members and of the replay: {' and '.join(one[:16] for one in sorted(hashes))}")
    sys.exit(len(hashes) != 1)


if __name__ == "__main__":
    main()
