"""A network of namespaces on one host: workers and a switch on links of a given rate and loss."""

from jaxina.testbed.network import RATES, down, find, reshape, up, without_bridge
from jaxina.testbed.places import BRIDGE, MAX_WORKERS, Link, Size, Testbed

__all__ = [
    "BRIDGE",
    "MAX_WORKERS",
    "RATES",
    "Link",
    "Size",
    "Testbed",
    "down",
    "find",
    "reshape",
    "up",
    "without_bridge",
]
