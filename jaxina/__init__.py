"""jaxina: `jax.lax.psum` summed by the network."""

from jaxina import _lowering, errors
from jaxina.collectives import collectives, disable, enable, fallbacks, pmean, psum, psum_scatter
from jaxina.job import Job, init, shutdown

_lowering.install()

__all__ = [
    "Job",
    "collectives",
    "disable",
    "enable",
    "errors",
    "fallbacks",
    "init",
    "pmean",
    "psum",
    "psum_scatter",
    "shutdown",
]
