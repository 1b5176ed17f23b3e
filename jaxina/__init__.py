"""jaxina: `jax.lax.psum` summed by the network."""

import importlib.metadata

from jaxina import _seat, errors
from jaxina._report import Program, Report, Stays, report
from jaxina.collectives import collectives
from jaxina.job import Job, init, shutdown

__version__ = importlib.metadata.version("jaxina")

_seat.take()

__all__ = ["Job", "Program", "Report", "Stays", "__version__", "collectives", "errors", "init", "report", "shutdown"]
