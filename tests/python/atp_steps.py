"""Training steps of one process, for test_atp_switch.py. Arguments: the number of steps, the step to wait at, a folder.

The process writes its step into the file progress of the folder. It waits at the given step until there is a file go,
and at the last step until there is a file end. At the end it prints a digest of its parameters.
"""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxina

PARAMETERS = 40_000


def main() -> None:
    steps, wait_at, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    jaxina.init()
    devices = np.array(jax.devices())
    mesh = Mesh(devices, ("d",))

    def step(parameters: jax.Array, noise: jax.Array) -> jax.Array:
        gradient = jax.numpy.sin(parameters * 3 + noise[0])
        return parameters - 0.01 * jax.lax.psum(gradient, "d")

    train = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=(P(), P("d")), out_specs=P()))
    shape = (devices.size, PARAMETERS)
    drawn = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    noise = jax.make_array_from_callback(shape, NamedSharding(mesh, P("d")), lambda index: drawn[index])
    parameters = jax.device_put(np.zeros(PARAMETERS, np.float32), NamedSharding(mesh, P()))
    for number in range(steps):
        parameters = jax.block_until_ready(train(parameters, noise))
        if jax.process_index() == 0:
            (folder / "next").write_text(str(number))
            (folder / "next").rename(folder / "progress")
        for step_to_wait, file in ((wait_at, "go"), (steps - 1, "end")):
            while number == step_to_wait and not (folder / file).exists():
                time.sleep(0.01)
    digest = hashlib.sha256(np.asarray(parameters.addressable_data(0)).tobytes()).hexdigest()
    print(f"parameters {digest}", flush=True)


if __name__ == "__main__":
    main()
