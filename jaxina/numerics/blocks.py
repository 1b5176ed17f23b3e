"""Constants of the number format, and the checks that all reference implementations share."""

from __future__ import annotations

from jaxina._native import MAX_WORKERS

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


def check_bits(bits: int) -> None:
    """Checks that words may have `bits` bits.

    Raises:
      ValueError: `bits` is not 8, 16 or 32.
    """
    if bits not in (8, 16, 32):
        raise ValueError(f"words have 8, 16 or 32 bits, not {bits}")


def head_room(workers: int, bits: int) -> int:
    """Computes how many bits of a word are left to the sum of n words: L = ceil(log2 n) of 32 bits, none of fewer.

    Raises:
      ValueError: n is not in [1, MAX_WORKERS], or `bits` is not 8, 16 or 32.
    """
    check_bits(bits)
    log2_n = log2_workers(workers)
    return log2_n if bits == 32 else 0


def quantized_limit(workers: int, bits: int = 32) -> int:
    """Computes Q, the largest word.

    Of 32 bits, ``Q = floor((2^31 - 1) / n)``: the sum of n words fits 32 bits. Of w = 8 or 16 bits, which are summed in
    32 bits, ``Q = 2^(w-1) - 1``.

    Args:
      workers: n.
      bits: w, 8, 16 or 32.

    Raises:
      ValueError: n is not in [1, MAX_WORKERS], or w is not 8, 16 or 32.
    """
    check_bits(bits)
    log2_workers(workers)
    return (2 ** (bits - 1) - 1) // (workers if bits == 32 else 1)


def shifts(workers: int, devices_per_worker: int, bits: int) -> tuple[int, int]:
    """Computes by how many bits sums of narrow words are shifted.

    Args:
      workers: n, how many arrays are summed: those of P workers with D devices each.
      devices_per_worker: D, which divides n.
      bits: w, 8, 16 or 32.

    Returns:
      The shift of the sum within a worker, ceil(log2 D), and that of the aggregator's sum, ceil(log2 P). Words of 32
      bits are not shifted: both are 0.

    Raises:
      ValueError: n is not in [1, MAX_WORKERS], D does not divide it, or w is not 8, 16 or 32.
    """
    check_bits(bits)
    log2_workers(workers)
    if devices_per_worker < 1 or workers % devices_per_worker:
        raise ValueError(f"{workers} arrays cannot be those of workers with {devices_per_worker} devices each")
    if bits == 32:
        return 0, 0
    return log2_workers(devices_per_worker), log2_workers(workers // devices_per_worker)


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
