"""Sums the same things in each of some ways, and prints digests of all results' bits after each.

    ring_program.py WAY...

A way is an aggregator, or AGGREGATOR=SWITCH. run_python_guests.sh runs it in virtual machines, with Soft-RoCE, and on
the host without.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxina

STEPS = 3
LARGEST_MTU = 4096
LARGE = 100_000


def workers_mesh() -> Mesh:
    return Mesh(np.array(jax.devices()), ("w",))


def everybodys(x: np.ndarray) -> jax.Array:
    """Each process's row of x, [processes, ...], as one array over all processes."""
    return jax.make_array_from_callback(x.shape, NamedSharding(workers_mesh(), P("w")), lambda index: x[index])


def own(x: jax.Array) -> np.ndarray:
    return np.asarray(x.addressable_data(0))


def sums() -> tuple[str, str]:
    """Sums one large array of each of two types, and trains a small model.

    Returns:
      A digest of the sums, and one of the model after each step. Sums have the same bits on all machines. The model's
      gradients have not: XLA computes them in the instructions that the processor has.
    """
    count = len(jax.devices())
    random = np.random.default_rng(1)

    def loss(weights: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.mean((jnp.tanh(x @ weights).sum(-1) - y) ** 2)

    def update(weights: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        gradient = jax.grad(loss)(weights, x[0], y[0])
        return weights - 0.05 * jax.lax.pmean(gradient, "w")

    def total(x: jax.Array) -> jax.Array:
        return jax.lax.psum(x, "w")

    mesh = workers_mesh()
    step = jax.jit(jax.shard_map(update, mesh=mesh, in_specs=(P(), P("w"), P("w")), out_specs=P(), check_vma=False))
    add = jax.jit(jax.shard_map(total, mesh=mesh, in_specs=P("w"), out_specs=P()))
    summed, trained = hashlib.sha256(), hashlib.sha256()
    weights = jnp.asarray(random.standard_normal((24, 16)), jnp.float32)
    for _ in range(STEPS):
        x = random.standard_normal((count, 32, 24)).astype(np.float32)
        y = random.standard_normal((count, 32)).astype(np.float32)
        weights = step(weights, everybodys(x), everybodys(y))
        trained.update(own(weights).tobytes())
    floats = random.standard_normal((count, LARGE)).astype(np.float32)
    summed.update(own(add(everybodys(floats))).tobytes())
    integers = random.integers(-(2**31), 2**31, (count, LARGE), np.int32)
    got = own(add(everybodys(integers)))[0]
    assert (got == integers.sum(0, dtype=np.int32)).all()
    summed.update(got.tobytes())
    return summed.hexdigest(), trained.hexdigest()


def check_refusals(device: str, interface: str) -> None:
    """Checks what `jaxina.init` says of devices that it cannot use. The job's device must be the only one."""

    def refusal(setting: str) -> str:
        os.environ["JAXINA_RDMA_DEVICE"] = setting
        try:
            jaxina.init("netreduce")
        except jaxina.errors.InvalidArgumentError as error:
            print("refused:", error, flush=True)
            return str(error)
        raise AssertionError(f"{setting} was taken")

    assert f"there is no RDMA device none9; this host has {device}" in refusal("none9")
    assert f"{device} has no port 9: its ports are 1 to 1" in refusal(f"{device}:9")
    assert f"{device} port 1 has no such GID" in refusal(f"{device}:1:200")
    assert "NAME:PORT:GID" in refusal(f"{device}:first")
    subprocess.run(["ip", "link", "set", interface, "down"], check=True)
    assert f"{device} port 1 is down" in refusal(device)
    subprocess.run(["ip", "link", "set", interface, "up"], check=True)
    os.environ["JAXINA_RDMA_DEVICE"] = device
    state = Path(f"/sys/class/infiniband/{device}/ports/1/state")
    for _ in range(600):
        if "ACTIVE" in state.read_text():
            return
        time.sleep(0.1)
    raise AssertionError("the port does not come up again")


def packets(device: str) -> int:
    """How many packets the RDMA device has sent."""
    return int(Path(f"/sys/class/infiniband/{device}/ports/1/hw_counters/sent_pkts").read_text())


def main() -> None:
    device = os.environ.get("JAXINA_RDMA_DEVICE", "")
    if interface := os.environ.get("RING_PROGRAM_INTERFACE"):
        check_refusals(device, interface)
    for way in sys.argv[1:]:
        aggregator, _, switch = way.partition("=")
        before = packets(device) if device else 0
        with jaxina.init(aggregator, switch=switch or None), jaxina.errors.typed():
            digest, trained = sums()
        sent = packets(device) - before if device else 0
        # In a ring of two, each worker sends as many words as there are. Here are two large arrays of 4 bytes a word.
        assert sent >= 2 * 4 * LARGE // LARGEST_MTU or not device, f"the device has sent {sent} packets"
        print(f"{way} digest {digest}, trained {trained}, {sent} packets of the RDMA device", flush=True)


if __name__ == "__main__":
    main()
