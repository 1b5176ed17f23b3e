"""Which versions are installed. It imports none of the packages, since JAX takes long to import."""

from __future__ import annotations

import functools
import importlib.metadata

# A job's processes must have the same: programs and words of several versions need not fit together.
ALIKE = ("jaxina", "jax", "jaxlib")


@functools.cache
def version(package: str) -> str:
    """The version of an installed package, or "not installed"."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
