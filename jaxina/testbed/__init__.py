"""A network of namespaces on one host: workers and a switch on links of a given rate and loss."""

from jaxina.testbed.network import Link, Testbed, down, find, up

__all__ = ["Link", "Testbed", "down", "find", "up"]
