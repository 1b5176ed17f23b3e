"""Sums over all processes that a launcher has started, and prints the result: a check that a cluster works.

Under `jaxina run` and `jaxina coordinator`, jaxina.init() finds the other processes. Under other launchers, JAX does.
"""

import os

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxina

if "JAXINA_COORDINATOR" not in os.environ:
    jax.distributed.initialize()  # finds the processes under Slurm, Open MPI and Kubernetes
with jaxina.init() as job:
    mesh = Mesh(jax.devices(), ("workers",))
    mine = NamedSharding(mesh, P("workers"))
    ranks = jax.make_array_from_callback((job.processes,), mine, lambda place: jnp.arange(job.processes * 1.0)[place])
    total = jax.jit(
        jax.shard_map(lambda x: jax.lax.psum(x, "workers"), mesh=mesh, in_specs=P("workers"), out_specs=P())
    )
    print(f"process {job.process} of {job.processes}: {job.aggregator} sums to {float(total(ranks)[0]):g}", flush=True)
    print(jaxina.report(), flush=True)
jax.distributed.shutdown()
