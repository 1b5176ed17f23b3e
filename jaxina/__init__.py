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
import os
from typing import TYPE_CHECKING

from jaxina import config, errors

__version__ = importlib.metadata.version("jaxina")

__all__ = ["Job", "Program", "Report", "Stays", "__version__", "collectives", "errors", "init", "report", "shutdown"]

# JAX takes longer to import than all else together, and most commands of the command line do not need it.
if TYPE_CHECKING:
    from jaxina._public import Job, Program, Report, Stays, collectives, init, report, shutdown
else:

    def __getattr__(name):
        """Imports the public names that need JAX, when the first of them is used."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from jaxina import _public

        globals().update({public: getattr(_public, public) for public in _public.__all__})
        return globals()[name]

    def __dir__():
        return sorted({*globals(), *__all__})


# A launched process that computes without `jaxina.init` would sum alone. jaxina refuses that when JAX compiles the
# program, so it must override JAX before.
if config.variable("processes") in os.environ:
    from jaxina import _public  # noqa: F401
