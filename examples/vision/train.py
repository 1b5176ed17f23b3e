#!/usr/bin/env python3
"""Trains a residual network in Flax Linen on MNIST digits, data-parallel over all devices, with synchronized BatchNorm.

    python examples/vision/train.py --devices 4                     # one process, four CPU devices
    jaxina run -n 2 examples/vision/train.py --collective jaxina    # two processes

It differs from examples/mnist in three ways. BatchNorm averages over the devices, so the forward pass has sums, too.
The running statistics of BatchNorm are state that is replicated on all devices. Every device shifts its images at
random.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
from augment import shifted
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from network import ResidualNetwork

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the folder of `shared`

from shared.data_parallel import make_count_correct, mesh_for, replicated_hash, shard
from shared.digits import load_digits, shuffled_batches
from shared.options import add_common_options, positive
from shared.processes import join_processes
from shared.report import Progress, RunRecord

AXIS = "data"
Variables = dict[str, Any]  # "params" and "batch_stats"


def make_replicated_state(
    network: ResidualNetwork, optimizer: optax.GradientTransformation, seed: int, mesh: Mesh
) -> tuple[Variables, optax.OptState]:
    """Returns the network's variables and the optimizer's state, replicated on every device."""

    def initial_state() -> tuple[Variables, optax.OptState]:
        variables = network.init(jax.random.key(seed), jnp.zeros((1, 28, 28, 1)), training=False)
        return variables, optimizer.init(variables["params"])

    return jax.jit(initial_state, out_shardings=NamedSharding(mesh, P()))()


def make_train_step(
    network: ResidualNetwork, optimizer: optax.GradientTransformation, shift: int, seed: int, mesh: Mesh
) -> Callable:
    """Returns a jitted training step over the global batch.

    It maps (variables, optimizer's state, step, images, labels) to (variables, optimizer's state, loss, accuracy).
    """

    def loss_of(params, batch_stats, images, labels):
        logits, changed = network.apply(
            {"params": params, "batch_stats": batch_stats}, images, training=True, mutable=["batch_stats"]
        )
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
        return loss, (changed["batch_stats"], (logits.argmax(-1) == labels).astype(jnp.float32).mean())

    def train_step(variables, optimizer_state, step, images, labels):
        # Each step and each device has its own random numbers.
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), step), jax.lax.axis_index(AXIS))
        images = shifted(images, key, shift)
        params = variables["params"]
        # "varying" parameters get each device's own gradients, which the pmean below averages. For replicated
        # parameters JAX would insert a sum of its own for each gradient.
        local_params = jax.lax.pcast(params, AXIS, to="varying")
        (loss, (batch_stats, accuracy)), gradients = jax.value_and_grad(loss_of, has_aux=True)(
            local_params, variables["batch_stats"], images, labels
        )
        gradients, loss, accuracy = jax.lax.pmean((gradients, loss, accuracy), AXIS)
        updates, optimizer_state = optimizer.update(gradients, optimizer_state, params)
        variables = {"params": optax.apply_updates(params, updates), "batch_stats": batch_stats}
        return variables, optimizer_state, loss, accuracy

    return jax.jit(
        jax.shard_map(
            train_step,
            mesh=mesh,
            in_specs=(P(), P(), P(), P(AXIS), P(AXIS)),
            out_specs=(P(), P(), P(), P()),
        ),
        donate_argnums=(0, 1),
    )


def train(options: argparse.Namespace, progress: Progress) -> RunRecord:
    training, test = load_digits()
    mesh = mesh_for(options.batch_size, len(training))
    steps = options.steps or options.epochs * (len(training) // options.batch_size)

    network = ResidualNetwork(AXIS)
    schedule = optax.warmup_cosine_decay_schedule(0.0, options.learning_rate, max(1, steps // 10), max(2, steps))
    optimizer = optax.adamw(schedule, weight_decay=1e-3)
    variables, optimizer_state = make_replicated_state(network, optimizer, options.seed, mesh)
    train_step = make_train_step(network, optimizer, options.shift, options.seed, mesh)
    count_correct = make_count_correct(functools.partial(network.apply, training=False), mesh)

    record = RunRecord(
        collective=options.collective,
        seed=options.seed,
        batch_size=options.batch_size,
        steps=steps,
        processes=jax.process_count(),
        devices=mesh.size,
        jax_version=jax.__version__,
    )
    batches = shuffled_batches(training, options.batch_size, options.seed)
    with progress.over(steps):
        for step in range(steps):
            images, labels = shard(next(batches), mesh)
            start = time.perf_counter()
            variables, optimizer_state, loss, accuracy = train_step(variables, optimizer_state, step, images, labels)
            loss, accuracy = float(loss), float(accuracy)  # waits until the step is done
            record.add_step(loss, accuracy, time.perf_counter() - start)
            progress.show(record)
    record.test_accuracy = count_correct(variables, test) / len(test)
    record.parameter_sha256 = replicated_hash(variables, mesh)
    return record


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add_common_options(parser)
    parser.add_argument("--epochs", type=positive, default=6)
    parser.add_argument("--steps", type=positive, help="train for this many steps; --epochs is then ignored")
    parser.add_argument("--batch-size", type=positive, default=128, help="images of a step, on all devices together")
    parser.add_argument("--learning-rate", type=float, default=3e-3, help="after the warm-up; it then falls to 0")
    parser.add_argument("--shift", type=positive, default=2, help="shift each image by at most this many pixels")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    if options.devices:
        jax.config.update("jax_num_cpu_devices", options.devices)
    if options.collective == "jaxina":
        import jaxina

        jaxina.init()  # from here on, jaxina carries this program's sums
    else:
        join_processes()  # XLA's own collectives carry them
    record = train(options, Progress(visible=jax.process_index() == 0))

    if jax.process_index() == 0:
        print(record.summary(), flush=True)
        if options.collective == "jaxina":
            print(f"jaxina: {jaxina.report()}", flush=True)
        if options.json:
            record.write(options.json)


if __name__ == "__main__":
    main()
