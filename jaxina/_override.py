"""`install` overrides JAX's primitives that sum, or warns why it cannot."""

from __future__ import annotations

import warnings

from jaxina._jax_compat import versions

# Why jaxina could not override JAX's psums, so that all of them stay with XLA; None if it could.
unavailable: str | None = None


def install() -> None:
    """Overrides JAX's psums, so that jaxina carries them wherever it is switched on.

    If this JAX's private parts are not what jaxina expects, JAX keeps its own psums, and one warning says what is
    missing.

    Raises:
      ImportError: this JAX is older than the oldest that jaxina supports.
    """
    global unavailable
    versions.check_oldest()
    try:
        from jaxina._jax_compat import compiled, lowering, program, run, tracing

        for part in (compiled, lowering, program, run, tracing):
            part.check()
    except (ImportError, AttributeError) as error:
        unavailable = f"{versions.found()} is not what jaxina expects: {error}"
        warnings.warn(f"{unavailable}. All psums stay with XLA's own collectives. {versions.tested()}", stacklevel=4)
        return
    versions.warn_if_untested()
    from jaxina import _lowering

    _lowering.install()
