"""Constants of the number format, and the checks that all reference implementations share."""

from __future__ import annotations

from jaxina._native import MAX_WORKERS

DEFAULT_BLOCK_SIZE = 256
"""k: how many elements share one exponent, unless configured otherwise."""

NON_FINITE_EXPONENT = 255
"""The exponent byte of a block that holds a NaN or an infinity."""


def log2_workers(workers: int) -> int:
    """Computes L = ceil(log2 n) for n workers.

    Raises:
      ValueError: n is not in [1, MAX_WORKERS].
    """
    if not 1 <= workers <= MAX_WORKERS:
        raise ValueError(f"workers must be in [1, {MAX_WORKERS}], not {workers}")
    return (workers - 1).bit_length()


def quantized_limit(workers: int, word_bits: int = 32) -> int:
    """Computes Q = floor((2^(w-1) - 1) / n): the sum of n words within [-Q, Q] cannot overflow w bits.

    Args:
      workers: n.
      word_bits: w, 8, 16 or 32.

    Raises:
      ValueError: n is not in [1, MAX_WORKERS], w is not 8, 16 or 32, or Q is zero, so that nothing of a value is left.
    """
    log2_workers(workers)
    if word_bits not in (8, 16, 32):
        raise ValueError(f"words have 8, 16 or 32 bits, not {word_bits}")
    limit = (2 ** (word_bits - 1) - 1) // workers
    if limit == 0:
        raise ValueError(f"{word_bits}-bit words leave nothing for each of {workers} workers")
    return limit


def block_count(elements: int, block_size: int) -> int:
    """Computes how many blocks of `block_size` cover `elements`. The last block may be shorter.

    Raises:
      ValueError: `block_size` is less than 1.
    """
    if block_size < 1:
        raise ValueError(f"block_size must be at least 1, not {block_size}")
    return -(-elements // block_size)


def check_exponent_count(exponents: int, elements: int, block_size: int) -> None:
    """Checks that there is one exponent for each block.

    Raises:
      ValueError: there is not.
    """
    blocks = block_count(elements, block_size)
    if exponents != blocks:
        raise ValueError(
            f"{elements} elements are {blocks} blocks of {block_size}, but there are {exponents} exponents"
        )
