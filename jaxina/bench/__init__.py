"""The benchmark of ``jaxina bench``: times all-reduces, also XLA's own for comparison, and checks every result."""
