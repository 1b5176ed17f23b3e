"""Trains a small network over links that are unequal and change, scheduled by MLfabric.

    python examples/unequal_links/train.py                                  # 4 workers, up to 5 Mbit/s each
    python examples/unequal_links/train.py --momentum 0.5 --nesterov        # DiLoCo's outer optimizer
    python examples/unequal_links/train.py --compressor topk:0.05           # updates of a twentieth of the elements
    python examples/unequal_links/train.py --replica --kill-server 60       # the server is killed after 60 updates

One command starts everything on this machine: `jaxina fabric scheduler`, `server` and `replica`, and the workers. Each
worker has its own part of 4,000 MNIST digits. It gets the model, takes `--local-steps` steps on its own copy, and
submits what they have changed. Nobody waits for the slowest link.

Over loopback nothing is slow by itself. The links are those that the scheduler is told: it paces each transfer to what
they have. `jaxina testbed` has real ones.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import daemons
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.flatten_util import ravel_pytree

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the folder of `shared`

from shared.digits import Digits, load_digits, shuffled_batches
from shared.options import positive

from jaxina import config
from jaxina.control.tls import Tls, tls_of
from jaxina.errors import JaxinaError, typed
from jaxina.fabric.monitor import written
from jaxina.fabric.service.client import Client
from jaxina.fabric.service.session import ask_status
from jaxina.testbed.schedule import SCHEDULES, draws

MBIT = 125_000  # bytes
CHANGE_S = 2.0  # seconds from one change of the links to the next


class Network(nnx.Module):
    """Two dense layers, 50,890 parameters."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.hidden = nnx.Linear(784, 64, rngs=rngs)
        self.out = nnx.Linear(64, 10, rngs=rngs)

    def __call__(self, images: jax.Array) -> jax.Array:
        """Maps images, float32 [n, 28, 28, 1], to logits, float32 [n, 10]."""
        return self.out(nnx.relu(self.hidden(images.reshape(images.shape[0], -1))))


class Task:
    """The network as a flat vector, which is what travels."""

    def __init__(self, seed: int) -> None:
        self._graph, parameters = nnx.split(Network(nnx.Rngs(seed)), nnx.Param)
        first, self._tree_of = ravel_pytree(parameters)
        self.first = np.asarray(first, np.float32)
        self._logits = jax.jit(self.logits)

    def logits(self, weights: jax.Array, images: jax.Array) -> jax.Array:
        return nnx.merge(self._graph, self._tree_of(weights))(images)

    def step(self, weights: jax.Array, digits: tuple[jax.Array, jax.Array], rate: float) -> jax.Array:
        """One step of gradient descent."""

        def loss(weights: jax.Array) -> jax.Array:
            return optax.softmax_cross_entropy_with_integer_labels(self.logits(weights, digits[0]), digits[1]).mean()

        return weights - rate * jax.grad(loss)(weights)

    def accuracy(self, weights: Any, digits: Digits) -> float:
        return float((np.asarray(self._logits(weights, digits.images)).argmax(-1) == digits.labels).mean())


def credentials() -> tuple[str | None, Tls | None]:
    """What the scheduler asks for, from JAXINA_TOKEN and JAXINA_TLS_*."""
    settings = config.resolve()
    return settings.token, tls_of(settings)


def work(options: argparse.Namespace) -> None:
    """Is one worker: it trains until the model has had all its updates."""
    task = Task(options.seed)
    step = jax.jit(task.step)
    training, _ = load_digits()
    mine = training[np.arange(options.rank, len(training), options.workers)]
    batches = shuffled_batches(mine, options.batch_size, 1000 * options.seed + options.rank)
    with Client(options.scheduler, options.rank, options.bind, *credentials()) as client:
        while True:
            weights, version = client.model()
            if version >= options.updates:
                break
            begin = time.monotonic()
            own = jnp.asarray(weights)
            for digits in itertools.islice(batches, options.local_steps):
                own = step(own, (digits.images, digits.labels), options.learning_rate)
            change = (np.asarray(own) - weights) / np.float32(options.workers)  # a round of all workers is their mean
            if options.timings is not None:
                with options.timings.open("a") as file:
                    print(time.monotonic() - begin, file=file)
            client.submit(change, version).result(timeout=120)
        client.finish()


def watch(options: argparse.Namespace, client: Client, fabric: daemons.Fabric) -> float:
    """Prints the accuracy over time. Returns the last one."""
    task = Task(options.seed)
    _, test = load_digits()
    begin = time.monotonic()
    killed: float | None = None
    print("seconds  updates  accuracy", flush=True)
    while True:
        weights, version = client.model()
        if killed is not None:
            print(f"         the replica serves, {time.monotonic() - killed:.1f} s later", flush=True)
            killed = None
        accuracy = task.accuracy(weights, test)
        print(f"{time.monotonic() - begin:7.1f} {version:8d} {100 * accuracy:8.1f} %", flush=True)
        if version >= options.updates:
            return accuracy
        if options.kill_server and version >= options.kill_server:
            options.kill_server = 0
            fabric.kill_server()
            killed = time.monotonic()
            print("         the server is killed", flush=True)
            continue
        fabric.check()
        time.sleep(options.every)


def change_links(options: argparse.Namespace, file: Path, over: threading.Event) -> None:
    """Writes what the links have: those of the workers are drawn anew, again and again."""
    names = [f"worker-{rank}" for rank in range(options.workers)]
    full = round(options.server_rate * MBIT)
    steady = dict.fromkeys(("server", "replica", f"worker-{options.workers}"), (full, full))
    file.write_text(written(0.0, steady))
    for rates in draws(options.schedule, options.seed, names, round(options.rate * MBIT)):
        with file.open("a") as out:
            out.write(written(time.time(), rates))
        if over.wait(CHANGE_S):
            return


def launch(options: argparse.Namespace) -> None:
    """Starts everything, watches it, and ends it."""
    over = threading.Event()
    with tempfile.TemporaryDirectory() as name, daemons.Fabric(Path(name)) as fabric:
        rates = Path(name) / "rates.jsonl"
        np.save(Path(name) / "model.npy", Task(options.seed).first)
        # One place more than there are workers: for the one that watches.
        scheduler = ["--workers", options.workers + 1, "--rate", options.rate, "--rates", rates]
        scheduler += ["--delay-bound", options.delay_bound, "--compressor", options.compressor]
        scheduler += ["--learning-rate", options.outer_rate, "--momentum", options.momentum, "--patience", 5]
        scheduler += ["--nesterov"] if options.nesterov else []
        scheduler += ["--divergence-bound", options.divergence_bound] if options.replica else []
        address = fabric.start(scheduler, Path(name) / "model.npy", options.replica)
        threading.Thread(target=change_links, args=(options, rates, over), daemon=True).start()
        workers = [
            subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--scheduler", address, "--rank", str(rank)])
            for rank in range(options.workers)
        ]
        try:
            with Client(address, options.workers, "127.0.0.1:0", *credentials()) as client:
                accuracy = watch(options, client, fabric)
                for worker in workers:
                    worker.wait(timeout=60)
                status = ask_status(address, 5, *credentials())
        finally:
            over.set()
            for worker in workers:
                worker.kill()
                worker.wait()
    committed = sum(host.committed for host in status.hosts)
    dropped = sum(host.dropped for host in status.hosts)
    print(
        f"{committed} updates committed, {dropped} dropped, {status.added} added on their way; greatest delay "
        f"{status.greatest_delay}, below {status.delay_bound}; accuracy {100 * accuracy:.1f} %"
    )
    failed = [rank for rank, worker in enumerate(workers) if worker.returncode != 0]
    if failed:
        raise SystemExit(f"workers {failed} failed")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--workers", type=positive, default=4)
    parser.add_argument("--updates", type=positive, default=160, help="train until the model has had so many")
    parser.add_argument("--local-steps", type=positive, default=8, metavar="H", help="steps for each update")
    parser.add_argument("--batch-size", type=positive, default=32)
    parser.add_argument("--learning-rate", type=float, default=0.1, help="of the local steps")
    parser.add_argument("--outer-rate", type=float, default=1.0, help="learning rate of the server")
    parser.add_argument("--momentum", type=float, default=0.0, help="of the server")
    parser.add_argument("--nesterov", action="store_true", help="make it Nesterov's, as DiLoCo does")
    parser.add_argument("--compressor", default="none", help="of the updates; docs/compressors.md lists them")
    parser.add_argument("--delay-bound", type=positive, default=16, help="in updates")
    parser.add_argument("--rate", type=float, default=5.0, help="megabits per second of a worker's full link")
    parser.add_argument("--server-rate", type=float, default=20.0, help="megabits per second of the models' links")
    parser.add_argument("--schedule", default="N2", choices=list(SCHEDULES), help="how the workers' links change")
    parser.add_argument("--replica", action="store_true", help="have a replica of the model")
    parser.add_argument("--divergence-bound", type=float, default=2.0, help="how far the replica may be away")
    parser.add_argument("--kill-server", type=int, default=0, metavar="UPDATES", help="kill it after so many updates")
    parser.add_argument("--every", type=float, default=1.0, help="seconds from one accuracy to the next")
    parser.add_argument("--seed", type=int, default=0)
    one = parser.add_argument_group("one worker alone", "of a job whose scheduler and server run already")
    one.add_argument("--rank", type=int, help="which worker this is")
    one.add_argument("--scheduler", metavar="HOST:PORT", help="where the scheduler listens")
    one.add_argument("--bind", metavar="HOST:PORT", default="127.0.0.1:0", help="where this worker takes updates")
    one.add_argument("--timings", type=Path, metavar="FILE", help="write how many seconds each update took to compute")
    options = parser.parse_args()
    if options.kill_server and not options.replica:
        parser.error("--kill-server needs --replica: without one the training would end")
    if (options.rank is None) != (options.scheduler is None):
        parser.error("--rank and --scheduler go together")
    return options


def main() -> None:
    options = parse_options()
    try:
        with typed():
            if options.rank is None:
                launch(options)
            else:
                work(options)
    except JaxinaError as error:
        raise SystemExit(f"{'launcher' if options.rank is None else f'worker {options.rank}'}: {error}") from None


if __name__ == "__main__":
    main()
