"""Trains a small CNN on 5,000 MNIST digits, data-parallel over all devices of all processes.

    python examples/mnist/train.py --devices 4                    # one process, four CPU devices
    jaxina run -n 4 examples/mnist/train.py --collective jaxina   # four processes

The training code is plain Flax, optax and `jax.lax.pmean` in a `jax.shard_map`. With `--collective jaxina` the script
calls `jaxina.init()` before it trains. Nothing else differs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
from cnn import CNN
from flax import nnx
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the folder of `shared`

from shared.data_parallel import make_count_correct, mesh_for, replicated_hash, shard
from shared.digits import load_digits, shuffled_batches
from shared.options import add_common_options, positive
from shared.processes import join_processes
from shared.report import Progress, RunRecord

Params = Any


def make_replicated_state(
    seed: int, optimizer: optax.GradientTransformation, mesh: jax.sharding.Mesh
) -> tuple[nnx.GraphDef, Params, optax.OptState]:
    """Returns the network's structure, its parameters and the optimizer's state, replicated on every device."""

    def network() -> CNN:
        return CNN(nnx.Rngs(jax.random.key(seed, impl="rbg")))  # rbg compiles faster than the default generator

    def initial_state() -> tuple[Params, optax.OptState]:
        params = nnx.state(network(), nnx.Param)
        return params, optimizer.init(params)

    graph = nnx.graphdef(nnx.eval_shape(network))
    return graph, *jax.jit(initial_state, out_shardings=NamedSharding(mesh, P()))()


def loss_and_accuracy(
    graph: nnx.GraphDef, params: Params, images: jax.Array, labels: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns the mean cross-entropy of the batch and the share of its digits that are classified correctly."""
    logits = nnx.merge(graph, params)(images)
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
    return loss, (logits.argmax(-1) == labels).astype(jnp.float32).mean()


def make_train_step(graph: nnx.GraphDef, optimizer: optax.GradientTransformation, mesh: jax.sharding.Mesh) -> Callable:
    """Returns a jitted training step over the global batch.

    Every device computes the gradients of its share of the batch. The gradients are then averaged, so that all devices
    take the same step.
    """

    def train_step(params, optimizer_state, images, labels):
        # "varying" parameters get each device's own gradients, which the pmean below averages. For replicated
        # parameters JAX would insert a sum of its own for each gradient.
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


def train(options: argparse.Namespace, progress: Progress) -> RunRecord:
    training, test = load_digits()
    mesh = mesh_for(options.batch_size, len(training))
    steps = options.steps or options.epochs * (len(training) // options.batch_size)

    optimizer = optax.adam(optax.cosine_decay_schedule(options.learning_rate, steps))
    graph, params, optimizer_state = make_replicated_state(options.seed, optimizer, mesh)
    train_step = make_train_step(graph, optimizer, mesh)
    count_correct = make_count_correct(lambda params, images: nnx.merge(graph, params)(images), mesh)

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
        for _ in range(steps):
            images, labels = shard(next(batches), mesh)
            start = time.perf_counter()
            params, optimizer_state, loss, accuracy = train_step(params, optimizer_state, images, labels)
            loss, accuracy = float(loss), float(accuracy)  # waits until the step is done
            record.add_step(loss, accuracy, time.perf_counter() - start)
            progress.show(record)
    record.test_accuracy = count_correct(params, test) / len(test)
    record.parameter_sha256 = replicated_hash(params, mesh)
    return record


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add_common_options(parser)
    parser.add_argument("--epochs", type=positive, default=8)
    parser.add_argument("--steps", type=positive, help="train for this many steps; --epochs is then ignored")
    parser.add_argument("--batch-size", type=positive, default=128, help="images of a step, on all devices together")
    parser.add_argument("--learning-rate", type=float, default=3e-3, help="at the start; it falls to 0")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the curves of loss and accuracy")
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
        if options.json:
            record.write(options.json)
        if options.plot:
            from curves import plot_curves  # imported here because it alone needs matplotlib

            plot_curves([(options.collective, record)], options.plot)


if __name__ == "__main__":
    main()
