"""Sizes as nccl-tests takes them, such as 4K, 100M or 1G. K, M and G are powers of 1024."""

from __future__ import annotations

from jaxina.errors import InvalidArgumentError

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_ELEMENT = 4  # bytes of a float32


def parse_size(text: str) -> int:
    """Reads a size, in bytes.

    Raises:
      InvalidArgumentError: the text is not a size.
    """
    number, unit = text.strip().upper().removesuffix("B"), ""
    if number and number[-1] in _UNITS:
        number, unit = number[:-1], number[-1]
    try:
        size = float(number) * _UNITS[unit]
    except ValueError:
        size = -1.0
    if not (size.is_integer() and _ELEMENT <= size <= 2**40):
        raise InvalidArgumentError(
            f"{text!r} is not a size: give at least {_ELEMENT} bytes, with K, M or G for powers of 1024, such as 4K or "
            "100M"
        )
    return int(size)


def sweep(begin: int, end: int, factor: float) -> list[int]:
    """Lists the sizes from `begin` to `end`, in bytes: each is `factor` times the one before. The last one is `end`.

    Each size is rounded down to whole float32 elements.

    Raises:
      InvalidArgumentError: `begin` is above `end`, or `factor` is not above 1.
    """
    if not begin <= end:
        raise InvalidArgumentError(f"-b {begin} is above -e {end}")
    if not factor > 1:
        raise InvalidArgumentError(f"-f {factor:g} must be above 1")
    sizes, size = [], float(begin)
    while size < end:
        sizes.append(int(size) // _ELEMENT * _ELEMENT)
        size *= factor
    return [*dict.fromkeys(sizes), end // _ELEMENT * _ELEMENT]


def size_text(size: int) -> str:
    """Writes a size in its shortest form, such as 4 KB, 97.7 KB or 100 MB."""
    for unit, name in ((2**30, "GB"), (2**20, "MB"), (2**10, "KB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}" if size < 1000 * unit else f"{size / unit:.0f} {name}"
    return f"{size} B"
