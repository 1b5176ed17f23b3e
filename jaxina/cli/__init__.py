"""The ``jaxina`` command."""

from jaxina.cli.app import main

__all__ = ["main"]
