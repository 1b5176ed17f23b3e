"""The dtypes that ``jaxina bench`` sums, and how many ranks may sum them exactly. The command line needs no NumPy."""

from __future__ import annotations

PERIOD = 127  # of the inputs' pattern: prime, so that no usual block or chunk length is a multiple of it
TURNS = 2  # how many different inputs there are; runs use them by turns
# The type can represent every integer up to this one.
_EXACT_TO = {"float32": 2**24, "int32": 2**31 - 1, "float16": 2**11}
DTYPES = tuple(_EXACT_TO)


def most_ranks(dtype: str) -> int:
    """The largest number of ranks whose sum of inputs (`exact_input.rank_input`) is exact."""
    return _EXACT_TO[dtype] // (PERIOD // 2 + TURNS)
