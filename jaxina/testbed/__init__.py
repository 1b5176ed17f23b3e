"""A network of namespaces on one host: workers and a switch on links of a given rate and loss."""

from jaxina.testbed.network import down, find, up
from jaxina.testbed.places import MAX_WORKERS, Link, Size, Testbed

__all__ = ["MAX_WORKERS", "Link", "Size", "Testbed", "down", "find", "up"]
