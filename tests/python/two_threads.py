"""Run by test_collectives_identity.py in both processes of a job: two threads, each with a program of its own.

Usage: two_threads.py together|crossed. With "together" the threads run at the same time. With "crossed" they take
turns: process 0 begins with the first thread, process 1 with the second one. Prints a line for each sum
and for each error.
"""

from __future__ import annotations

import sys
import threading

import jax
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxina

FACTORS = (1.0, 100.0)
RUNS = 40


def say(line: str) -> None:
    sys.stdout.write(line + "\n")  # in one piece: the threads share the output
    sys.stdout.flush()


def main() -> None:
    jaxina.init()
    workers = jax.device_count()
    mesh = jax.make_mesh((workers,), ("w",), axis_types=(AxisType.Auto,))
    ones = jax.make_array_from_callback(
        (workers * 100,), NamedSharding(mesh, P("w")), lambda _: np.ones(100, np.float32)
    )

    def program(factor: float):
        def step(x):
            return lax.psum(x * factor, "w")

        return jax.jit(jax.shard_map(step, mesh=mesh, in_specs=P("w"), out_specs=P(), check_vma=False))

    programs = [program(factor) for factor in FACTORS]
    for compiled in programs:
        compiled(ones).block_until_ready()
    turns = [threading.Event() for _ in programs]

    def run(number: int) -> None:
        turns[number].wait()
        try:
            with jaxina.errors.typed():
                for _ in range(RUNS):
                    total = np.asarray(programs[number](ones).addressable_data(0))
                    say("right" if (total == FACTORS[number] * workers).all() else f"WRONG: {total}")
        except jaxina.errors.JaxinaError as error:
            say(f"error: {type(error).__name__}: {error}")
        turns[1 - number].set()

    first = [jax.process_index()] if sys.argv[1] == "crossed" else [0, 1]
    for number in first:
        turns[number].set()
    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
