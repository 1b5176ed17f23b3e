"""Matches of table entries as the model's harness writes them."""

from __future__ import annotations

from jaxina.controller.tables import Range, Ternary


def prefixes(match: Range, width: int) -> list[Ternary]:
    """Returns the fewest aligned blocks that together are the range."""
    found, low, ones = [], match.low, (1 << width) - 1
    while low <= match.high:
        size = low & -low or 1 << width
        while low + size - 1 > match.high:
            size >>= 1
        found.append(Ternary(low, ones & ~(size - 1)))
        low += size
    return found


def pattern(match: Ternary, width: int) -> str:
    """Returns the match as the harness writes it, with a `*` for each bit that does not matter."""
    bits = reversed(range(width))
    return "0b" + "".join(f"{match.value >> bit & 1}" if match.mask >> bit & 1 else "*" for bit in bits)
