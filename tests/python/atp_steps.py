"""Training steps of one process, for test_atp_switch.py. Arguments: a folder, and the steps after which to wait.

The process writes its step into the file progress of the folder. After step N of the arguments it waits until there is
a file go-N. After the last of these it prints a digest of its parameters.
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
    folder, pauses = Path(sys.argv[1]), [int(step) for step in sys.argv[2:]]
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
    for number in range(pauses[-1] + 1):
        parameters = jax.block_until_ready(train(parameters, noise))
        if jax.process_index() == 0:
            (folder / "next").write_text(str(number))
            (folder / "next").rename(folder / "progress")
        while number in pauses and not (folder / f"go-{number}").exists():
            time.sleep(0.01)
    digest = hashlib.sha256(np.asarray(parameters.addressable_data(0)).tobytes()).hexdigest()
    print(f"parameters {digest}", flush=True)


if __name__ == "__main__":
    main()
