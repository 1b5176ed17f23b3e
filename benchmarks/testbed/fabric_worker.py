"""A worker of `fabric.py` that sums with psum: of gradients each step, or of models after some local steps."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxina

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))
sys.path.append(str(Path(__file__).resolve().parents[2] / "examples/unequal_links"))

from shared.digits import load_digits, shuffled_batches
from train import Task

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/unequal_links/train.py"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--local-steps", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    jaxina.init()
    task = Task(options.seed)
    rank, workers = jax.process_index(), jax.process_count()
    training, _ = load_digits()
    mine = training[np.arange(rank, len(training), workers)]
    batches = shuffled_batches(mine, options.batch_size, 1000 * options.seed + rank)
    mesh = Mesh(np.array(jax.devices()), ("workers",))
    step = jax.jit(task.step)
    mean = jax.jit(
        jax.shard_map(lambda x: jax.lax.pmean(x[0], "workers"), mesh=mesh, in_specs=P("workers"), out_specs=P())
    )

    def average(own: jax.Array) -> np.ndarray:
        rows = jax.make_array_from_process_local_data(NamedSharding(mesh, P("workers")), np.asarray(own)[None])
        return np.asarray(mean(rows).addressable_data(0))

    weights = average(task.first)  # compiles
    begin = None
    computing: list[float] = []
    records: list[tuple[float, np.ndarray]] = []
    for round_number in itertools.count():
        started = time.monotonic()
        own = jax.numpy.asarray(weights)
        for digits in itertools.islice(batches, options.local_steps):
            own = step(own, (digits.images, digits.labels), options.learning_rate)
        # One step of each worker and the mean of the models is what a step with the mean of the gradients is.
        late = np.zeros(1, np.float32)
        if begin is not None and time.monotonic() - begin > options.seconds:
            late += 1
        row = np.concatenate([np.asarray(own), late])
        computing.append(time.monotonic() - started)
        both = average(row)
        weights, over = both[:-1], both[-1]
        if begin is None:
            begin = time.monotonic()
        if rank == 0 and round_number % (1 if options.local_steps > 1 else 4) == 0:
            records.append((time.monotonic() - begin, weights))
        if over > 0:  # somebody's time is over, and all know
            break
    seconds = time.monotonic() - begin
    options.out.with_suffix(f".{rank}").write_text("\n".join(str(seconds) for seconds in computing[1:]))
    if rank == 0:
        times = {"times": [t for t, _ in records], "began": time.time() - seconds}
        times |= {"seconds": seconds, "rounds": round_number}
        np.savez(options.out, weights=np.stack([w for _, w in records]), **times)
    jaxina.shutdown()


if __name__ == "__main__":
    main()
