"""jaxina: `jax.lax.psum` summed by the network."""

from jaxina import _lowering, errors
from jaxina.collectives import collectives, disable, enable, pmean, psum

_lowering.install()

__all__ = ["collectives", "disable", "enable", "errors", "pmean", "psum"]
