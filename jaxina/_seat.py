"""jaxina's seat in JAX: `take` overrides the primitives that sum, or warns why it cannot."""

from __future__ import annotations

import warnings

from jaxina._jax_compat import versions

# Why psums stay with XLA whatever is switched on; None if they do not.
empty: str | None = None


def take() -> None:
    """Sends psums to jaxina wherever it is switched on.

    A JAX whose private parts are not what jaxina expects keeps its own psums, and one warning says what is missing.

    Raises:
      ImportError: this JAX is older than any that jaxina is for.
    """
    global empty
    versions.check_oldest()
    try:
        from jaxina._jax_compat import compiled, lowering, program, run

        for part in (compiled, lowering, program, run):
            part.check()
    except (ImportError, AttributeError) as error:
        empty = f"{versions.found()} is not what jaxina expects: {error}"
        warnings.warn(f"{empty}. All psums stay with XLA's own collectives. {versions.tested()}", stacklevel=3)
        return
    versions.warn_if_untested()
    from jaxina import _lowering

    _lowering.install()
