"""Kills a worker while the others' GPUs wait for its sum. The others must get a WorkerLostError.

jaxina run -n 2 --grace 30 tests/gpu/lost_worker_on_gpu.py || true   # the killed worker makes `jaxina run` fail
"""

from __future__ import annotations

import os
import signal
import time

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import jaxina

LONGEST_S = 10.0


def told(seconds: float, error: Exception) -> str:
    """Says when the loss was noticed. scripts/gpu_check.sh looks for "told after"."""
    when = "told after" if seconds <= LONGEST_S else "told too late, after"
    return f"{when} {seconds:.2f} s: {error}"


def main() -> None:
    jaxina.init(strict=True)
    mesh = jax.make_mesh((jax.device_count(),), ("w",))
    psum = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, "w"), mesh=mesh, in_specs=P("w"), out_specs=P()))
    ones = np.ones(10_000_000, np.float32)
    x = jax.make_array_from_callback(
        (mesh.size * ones.size,),
        NamedSharding(mesh, P("w")),
        lambda index: ones,  # each device's part
    )
    psum(x).block_until_ready()
    if jax.process_index() == jax.process_count() - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    try:
        with jaxina.errors.typed():
            while time.monotonic() < began + LONGEST_S:
                psum(x).block_until_ready()
    except jaxina.errors.WorkerLostError as error:
        print(told(time.monotonic() - began, error), flush=True)
        os._exit(0)  # JAX would wait for the dead process
    print("the loss of a worker was not noticed", flush=True)
    os._exit(1)


if __name__ == "__main__":
    main()
