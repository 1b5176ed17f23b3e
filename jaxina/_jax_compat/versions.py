"""The versions of JAX that jaxina supports. This module uses no private name of JAX."""

from __future__ import annotations

import warnings

import jax

OLDEST = (0, 10, 2)
TESTED = ("0.10", "0.11", "0.12")


def found() -> str:
    """The installed JAX, for messages."""
    return f"JAX {jax.__version__}"


def tested() -> str:
    """A sentence that names the versions that jaxina has been tested with."""
    return f"jaxina has been tested with JAX {', '.join(TESTED)}."


def is_tested() -> bool:
    """Whether jaxina has been tested with the installed JAX."""
    return any(jax.__version__.startswith(f"{version}.") for version in TESTED)


def check_oldest() -> None:
    """Raises ImportError if this JAX is too old."""
    if jax.__version_info__[:3] < OLDEST:
        raise ImportError(f"jaxina needs JAX {'.'.join(map(str, OLDEST))} or newer, found {jax.__version__}")


def warn_if_untested() -> None:
    """Warns if jaxina has not been tested with the installed JAX."""
    if not is_tested():
        warnings.warn(f"{tested()} This is {found()}.", stacklevel=5)
