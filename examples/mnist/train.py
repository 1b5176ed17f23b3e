"""Trains a small CNN on 5,000 MNIST digits, data-parallel over all devices of all processes.

    python examples/mnist/train.py --devices 4                    # one process, four CPU devices
    jaxina run -n 4 examples/mnist/train.py --collective jaxina   # four processes

The training code is plain Flax, optax and `jax.lax.pmean` in a `jax.shard_map`. With `--collective
jaxina` it calls `jaxina.init()` first; nothing else differs.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from cnn import CNN
from digits import Digits, load_digits, shuffled_batches
from report import Progress, RunRecord

Params = Any


def make_replicated_state(
    seed: int, optimizer: optax.GradientTransformation, mesh: jax.sharding.Mesh
) -> tuple[nnx.GraphDef, Params, optax.OptState]:
    """The network's structure, its parameters and the optimizer's state, alike on every device."""

    def network() -> CNN:
        return CNN(nnx.Rngs(jax.random.key(seed, impl="rbg")))  # compiles faster than the default

    def initial_state() -> tuple[Params, optax.OptState]:
        params = nnx.state(network(), nnx.Param)
        return params, optimizer.init(params)

    graph = nnx.graphdef(nnx.eval_shape(network))
    return graph, *jax.jit(initial_state, out_shardings=NamedSharding(mesh, P()))()


def loss_and_accuracy(
    graph: nnx.GraphDef, params: Params, images: jax.Array, labels: jax.Array
) -> tuple[jax.Array, jax.Array]:
    logits = nnx.merge(graph, params)(images)
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
    return loss, (logits.argmax(-1) == labels).astype(jnp.float32).mean()


def make_train_step(
    graph: nnx.GraphDef, optimizer: optax.GradientTransformation, mesh: jax.sharding.Mesh
) -> Callable:
    """A step over the global batch: every device differentiates its share of it, then the gradients
    are averaged, so that all devices take the same step."""

    def train_step(params, optimizer_state, images, labels):
        # Varying parameters get per-device gradients; JAX would sum those of replicated ones.
        local_params = jax.lax.pcast(params, "data", to="varying")
        (loss, accuracy), gradients = jax.value_and_grad(
            lambda p: loss_and_accuracy(graph, p, images, labels), has_aux=True
        )(local_params)
        gradients, loss, accuracy = jax.lax.pmean((gradients, loss, accuracy), "data")
        updates, optimizer_state = optimizer.update(gradients, optimizer_state, params)
        return optax.apply_updates(params, updates), optimizer_state, loss, accuracy

    return jax.jit(
        jax.shard_map(
            train_step,
            mesh=mesh,
            in_specs=(P(), P(), P("data"), P("data")),
            out_specs=(P(), P(), P(), P()),
        ),
        donate_argnums=(0, 1),
    )


def make_count_correct(graph: nnx.GraphDef, mesh: jax.sharding.Mesh) -> Callable:
    """Counts the images of a global batch that are classified right; label -1 marks padding."""

    def count_correct(params, images, labels):
        predicted = nnx.merge(graph, params)(images).argmax(-1)
        return jax.lax.psum((predicted == labels).sum(), "data")

    return jax.jit(
        jax.shard_map(count_correct, mesh=mesh, in_specs=(P(), P("data"), P("data")), out_specs=P())
    )


def shard(digits: Digits, mesh: jax.sharding.Mesh) -> tuple[jax.Array, jax.Array]:
    """The digits as global arrays; each device gets its own equal share of the rows."""
    sharding = NamedSharding(mesh, P("data"))

    def place(rows: np.ndarray) -> jax.Array:
        return jax.make_array_from_callback(rows.shape, sharding, lambda index: rows[index])

    return place(digits.images), place(digits.labels)


def padded(digits: Digits, multiple: int) -> Digits:
    missing = -len(digits) % multiple
    return Digits(
        np.pad(digits.images, ((0, missing), (0, 0), (0, 0), (0, 0))),
        np.pad(digits.labels, (0, missing), constant_values=-1),
    )


def rows_of_all(row: jax.Array) -> jax.Array:
    """[1, k] of one device -> [devices, k] of all, by a sum: a collective that every choice has."""
    rows = jnp.zeros((jax.lax.axis_size("data"), row.shape[1]), row.dtype)
    return jax.lax.psum(rows.at[jax.lax.axis_index("data")].set(row[0]), "data")


def parameter_hash(params: Params, mesh: jax.sharding.Mesh) -> str:
    """SHA-256 over all leaves: path, dtype, shape and bytes.

    Raises RuntimeError on every process if any device of any process has other parameters.
    """
    digests = []
    for device in jax.local_devices():
        digest = hashlib.sha256()
        for path, leaf in jax.tree_util.tree_leaves_with_path(params):
            (copy,) = [s.data for s in leaf.addressable_shards if s.device == device]
            value = np.asarray(copy)
            digest.update(f"{jax.tree_util.keystr(path)} {value.dtype} {value.shape}".encode())
            digest.update(value.tobytes())
        digests.append(np.frombuffer(digest.digest(), np.uint8))
    mine = jax.make_array_from_process_local_data(
        NamedSharding(mesh, P("data")), np.stack(digests).astype(np.int32)
    )
    gather = jax.jit(jax.shard_map(rows_of_all, mesh=mesh, in_specs=P("data"), out_specs=P()))
    everywhere = np.asarray(gather(mine)).astype(np.uint8)
    if (everywhere != everywhere[0]).any():
        hashes = ", ".join(bytes(row).hex()[:12] for row in everywhere)
        raise RuntimeError(f"the devices ended with different parameters; their hashes: {hashes}")
    return bytes(everywhere[0]).hex()


def train(options: argparse.Namespace, progress: Progress) -> RunRecord:
    training, test = load_digits()
    devices = jax.device_count()
    if options.batch_size % devices or options.batch_size > len(training):
        raise SystemExit(
            f"--batch-size {options.batch_size} must be a multiple of the {devices} devices and at "
            f"most {len(training)}"
        )
    steps = options.steps or options.epochs * (len(training) // options.batch_size)
    mesh = jax.make_mesh((devices,), ("data",))

    optimizer = optax.adam(optax.cosine_decay_schedule(options.learning_rate, steps))
    graph, params, optimizer_state = make_replicated_state(options.seed, optimizer, mesh)
    train_step = make_train_step(graph, optimizer, mesh)
    count_correct = make_count_correct(graph, mesh)

    record = RunRecord(
        collective=options.collective,
        seed=options.seed,
        batch_size=options.batch_size,
        steps=steps,
        processes=jax.process_count(),
        devices=devices,
        jax_version=jax.__version__,
    )
    batches = shuffled_batches(training, options.batch_size, options.seed)
    with progress.over(steps):
        for _ in range(steps):
            images, labels = shard(next(batches), mesh)
            start = time.perf_counter()
            params, optimizer_state, loss, accuracy = train_step(
                params, optimizer_state, images, labels
            )
            loss, accuracy = float(loss), float(accuracy)  # waits for the step
            record.add_step(loss, accuracy, time.perf_counter() - start)
            progress.show(record)
    correct = int(count_correct(params, *shard(padded(test, devices), mesh)))
    record.test_accuracy = correct / len(test)
    record.parameter_sha256 = parameter_hash(params, mesh)
    return record


def positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise ValueError
    return value


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--collective", choices=["xla", "jaxina"], default="xla")
    parser.add_argument("--epochs", type=positive, default=8)
    parser.add_argument("--steps", type=positive, help="train for so many steps instead of epochs")
    parser.add_argument("--batch-size", type=positive, default=128, help="of all devices")
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--devices", type=positive, help="CPU devices of this process")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="curves of loss and accuracy")
    parser.add_argument("--json", type=Path, metavar="FILE", help="results and curves")
    return parser.parse_args()


def join_processes() -> None:
    """Makes one JAX program of the processes that `jaxina run` started, as jaxina.init() does."""
    if "JAXINA_RANK" in os.environ:  # JAX itself reads JAX_COORDINATOR_ADDRESS, which `jaxina run` sets, too
        jax.distributed.initialize(
            num_processes=int(os.environ["JAXINA_PROCESSES"]),
            process_id=int(os.environ["JAXINA_RANK"]),
        )


def main() -> None:
    options = parse_options()
    if options.devices:
        jax.config.update("jax_num_cpu_devices", options.devices)
    if options.collective == "jaxina":
        import jaxina

        jaxina.init()
    else:
        join_processes()
    record = train(options, Progress(visible=jax.process_index() == 0))

    if jax.process_index() == 0:
        print(record.summary(), flush=True)
        if options.json:
            record.write(options.json)
        if options.plot:
            from curves import plot_curves  # needs matplotlib, which nothing else here does

            plot_curves([(options.collective, record)], options.plot)


if __name__ == "__main__":
    main()
