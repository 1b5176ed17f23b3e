"""A network of namespaces on one host: workers and a switch on links of a given rate and loss."""

from jaxina.testbed.network import down, find, up, without_bridge
from jaxina.testbed.places import BRIDGE, MAX_WORKERS, Link, Size, Testbed

__all__ = ["BRIDGE", "MAX_WORKERS", "Link", "Size", "Testbed", "down", "find", "up", "without_bridge"]
