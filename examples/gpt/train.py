"""Trains a small decoder on Shakespeare, over all devices of all processes, in one of three layouts.

    python examples/gpt/train.py --devices 4                                # one process, four devices, XLA alone
    jaxina run -n 4 examples/gpt/train.py --collective jaxina               # four processes
    jaxina run -n 4 examples/gpt/train.py --collective jaxina --layout fsdp
    jaxina run -n 4 examples/gpt/train.py --checkpoints out/gpt --resume

The training code knows nothing of jaxina. With `--collective jaxina` the script calls `jaxina.init()` before it trains,
and prints at the end which sums jaxina carried.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
import text
from flax import nnx
from layouts import NAMES, Layout
from model import Decoder, Size
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the folder of `shared`

from shared.options import add_common_options, positive
from shared.processes import join_processes


def loss_of(graph: nnx.GraphDef, parameters: Any, batch: jax.Array) -> jax.Array:
    """Returns the mean cross-entropy of the next character. `batch` is int32 [rows, length + 1]."""
    logits = nnx.merge(graph, parameters)(batch[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(logits, batch[:, 1:]).mean()


class Training:
    """The parameters and the optimizer's state, sharded as the layout says, and the functions that use them."""

    def __init__(self, options: argparse.Namespace, size: Size, layout: Layout):
        self.size, self.layout = size, layout
        schedule = optax.warmup_cosine_decay_schedule(
            0.0, options.learning_rate, options.steps // 10 + 1, options.steps + 1
        )
        self.optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))
        abstract = jax.eval_shape(lambda: self._new(options.seed))
        self.graph = nnx.split(nnx.eval_shape(lambda: Decoder(size, nnx.Rngs(0))))[0]
        parameters = layout.shardings(abstract["parameters"])
        self.shardings = {
            "parameters": parameters,
            "optimizer": optax.tree_map_params(
                self.optimizer,
                lambda _, sharding: sharding,
                abstract["optimizer"],
                parameters,
                transform_non_params=lambda _: layout.replicated,
            ),
        }
        self.state = jax.jit(lambda: self._new(options.seed), out_shardings=self.shardings)()
        loss = functools.partial(loss_of, self.graph)
        self._step, self._loss = layout.step(loss, self.optimizer), layout.mean_loss(loss)
        self._logits = jax.jit(
            lambda parameters, tokens: nnx.merge(self.graph, parameters)(tokens), out_shardings=layout.replicated
        )

    def _new(self, seed: int) -> dict[str, Any]:
        parameters = nnx.split(Decoder(self.size, nnx.Rngs(seed)))[1]
        return {"parameters": parameters, "optimizer": self.optimizer.init(parameters)}

    def step(self, batch: np.ndarray) -> float:
        self.state, loss = self._step(self.state, self.layout.place(batch))
        return float(loss)  # waits until the step is done

    def loss(self, batch: np.ndarray) -> float:
        return float(self._loss(self.state["parameters"], self.layout.place(batch)))

    def write(self, known: text.Text, beginning: str, characters: int, seed: int) -> str:
        """Continues the text `beginning` by so many characters. All processes return the same text."""
        chance = np.random.default_rng(seed)
        numbers = list(known.numbers(beginning))
        for _ in range(characters):
            row = np.zeros((1, self.size.length), np.int32)
            shown = numbers[-self.size.length :]
            row[0, : len(shown)] = shown
            tokens = jax.device_put(row, self.layout.replicated)
            logits = np.asarray(self._logits(self.state["parameters"], tokens).addressable_data(0))[0, len(shown) - 1]
            weights = np.exp((logits - logits.max()) / 0.8)
            numbers.append(chance.choice(len(weights), p=weights / weights.sum()))
        return known.characters(np.array(numbers))


class Checkpoints:
    """Keeps the newest two states in `folder`. If `folder` is None, it keeps nothing and needs no Orbax."""

    def __init__(self, folder: Path | None, every: int):
        self._manager = None
        if folder:
            import orbax.checkpoint as ocp

            options = ocp.CheckpointManagerOptions(max_to_keep=2, save_interval_steps=every)
            self._manager, self._args = ocp.CheckpointManager(folder.resolve(), options=options), ocp.args

    def restore(self, training: Training) -> int:
        """Loads the newest checkpoint, if there is one, into `training`. Returns the number of steps it had done."""
        if self._manager is None or (step := self._manager.latest_step()) is None:
            return 0
        like = jax.tree.map(
            lambda value, sharding: jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=sharding),
            training.state,
            training.shardings,
        )
        training.state = self._manager.restore(step, args=self._args.StandardRestore(like))
        return step

    def save(self, done: int, training: Training) -> None:
        if self._manager is not None:
            self._manager.save(done, args=self._args.StandardSave(training.state))

    def close(self) -> None:
        if self._manager is not None:
            self._manager.wait_until_finished()
            self._manager.close()


def train(options: argparse.Namespace) -> dict[str, Any]:
    first = jax.process_index() == 0
    known = text.load(options.text, jax.process_index())
    layout = Layout(options.layout)
    size = Size(len(known.alphabet), options.length, options.width, options.depth, options.heads)
    training = Training(options, size, layout)
    checkpoints = Checkpoints(options.checkpoints, options.checkpoint_every)
    done = checkpoints.restore(training) if options.resume else 0
    loader = text.Loader(known.train, options.batch_size, options.length, options.seed, done)
    tested = next(text.Loader(known.test, options.batch_size, options.length, 0))
    losses, seconds = [], []
    columns = (
        TextColumn("step"),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not first) as progress:
        bar = progress.add_task("", total=options.steps, completed=done)
        for step in range(done, options.steps):
            began = time.perf_counter()
            losses.append(training.step(next(loader)))
            seconds.append(time.perf_counter() - began)
            checkpoints.save(step + 1, training)
            progress.update(bar, advance=1, description=f"loss {losses[-1]:.3f}, {1e3 * seconds[-1]:.0f} ms")
    checkpoints.close()
    written = training.write(known, options.sample_from, options.sample, options.seed)
    return {
        "layout": options.layout,
        "collective": options.collective,
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(training.state["parameters"])),
        "devices": jax.device_count(),
        "losses": losses,
        "test_loss": training.loss(tested),
        "step_ms": 1e3 * statistics.median(seconds[1:] or seconds or [0.0]),
        "sample": written,
    }


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_common_options(parser)
    parser.add_argument("--layout", choices=NAMES, default="data", help="how the step is split over the devices")
    parser.add_argument("--steps", type=positive, default=300)
    parser.add_argument("--batch-size", type=positive, default=32, help="rows of a step, on all devices together")
    parser.add_argument("--length", type=positive, default=64, help="characters of a row")
    parser.add_argument("--width", type=positive, default=128, help="size of the vector of a character")
    parser.add_argument("--depth", type=positive, default=2, help="number of blocks")
    parser.add_argument("--heads", type=positive, default=4, help="attention heads of a block")
    parser.add_argument("--learning-rate", type=float, default=3e-3, help="after the warm-up; it then falls to 0")
    parser.add_argument("--text", type=Path, metavar="FILE", help="train on this text instead of Shakespeare")
    parser.add_argument("--checkpoints", type=Path, metavar="DIR", help="save checkpoints in this folder")
    parser.add_argument("--checkpoint-every", type=positive, default=100, metavar="STEPS")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint")
    parser.add_argument("--sample", type=int, default=200, help="write this many characters after the training")
    parser.add_argument("--sample-from", default="KING ", metavar="TEXT", help="what the written text begins with")
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
    found = train(options)
    if jax.process_index() == 0:
        print(found["sample"])
        print(
            f"{found['parameters']:,} parameters, {found['layout']} over {found['devices']} devices by "
            f"{found['collective']}: test loss {found['test_loss']:.3f}, {found['step_ms']:.1f} ms a step"
        )
        if options.collective == "jaxina":
            print(jaxina.report())
        if options.json:
            options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
