"""In-network gradient aggregation for JAX.

Between `jaxina.init` and `jaxina.shutdown`, the sums of JAX programs (`jax.lax.psum`, `jax.lax.pmean`, gradients) go
through an aggregator instead of XLA's own collectives. The programs do not change. `jaxina.report` says which sums were
carried and which were not.

Example:
  Four devices of one process sum their shards:

  >>> import jax
  >>> import jax.numpy as jnp
  >>> import jaxina
  >>> from jax.sharding import Mesh, PartitionSpec as P
  >>> jax.config.update("jax_num_cpu_devices", 4)
  >>> def total(x):
  ...     return jax.lax.psum(x, "workers")
  >>> with jaxina.init():
  ...     mesh = Mesh(jax.devices(), ("workers",))
  ...     summed = jax.jit(jax.shard_map(total, mesh=mesh, in_specs=P("workers"), out_specs=P()))
  ...     print(summed(jnp.arange(4.0)))
  ...     print(jaxina.report())
  [6.]
  jit_total: carries 1 collective (1 tensor)
"""

import importlib.metadata

from jaxina import _override, errors
from jaxina._report import Program, Report, Stays, report
from jaxina.collectives import collectives
from jaxina.job import Job, init, shutdown

__version__ = importlib.metadata.version("jaxina")

_override.install()

__all__ = ["Job", "Program", "Report", "Stays", "__version__", "collectives", "errors", "init", "report", "shutdown"]
