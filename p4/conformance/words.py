"""Writes lists of 32-bit words as short text.

`100+3*64` is a run: 64 words, the first 100, each 3 more than the one before. `7` is one word. Commas join runs, and
`-` is the empty list. Words are signed and wrap modulo 2^32.
"""

from __future__ import annotations

from collections.abc import Sequence


def wrap(value: int) -> int:
    """Returns the signed 32-bit integer that is congruent to `value` modulo 2^32."""
    return (value + 2**31) % 2**32 - 2**31


def run(first: int, step: int, count: int) -> list[int]:
    """Returns `count` words, the first `first`, each `step` more than the one before."""
    return [wrap(first + step * i) for i in range(count)]


def to_text(words: Sequence[int]) -> str:
    runs = []
    at = 0
    while at < len(words):
        end = at + 1
        if end < len(words):
            step = wrap(words[end] - words[at])
            while end < len(words) and wrap(words[end] - words[end - 1]) == step:
                end += 1
        if end - at > 2:
            runs.append(f"{words[at]}+{step}*{end - at}")
            at = end
        else:
            runs.append(str(words[at]))
            at += 1
    return ",".join(runs) or "-"


def from_text(text: str) -> list[int]:
    words: list[int] = []
    for part in [] if text == "-" else text.split(","):
        first, plus, rest = part.partition("+")
        step, _, count = rest.partition("*")
        words += run(int(first), int(step), int(count)) if plus else [wrap(int(first))]
    return words
