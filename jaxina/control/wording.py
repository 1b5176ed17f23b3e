"""Words for messages."""

from __future__ import annotations

from collections.abc import Sequence


def listed(numbers: Sequence[int], most: int = 16) -> str:
    """The numbers with commas between. Beyond `most`, it says only how many more there are."""
    text = ", ".join(str(number) for number in numbers[:most])
    return text + (f" and {len(numbers) - most} more" if len(numbers) > most else "")
