"""Loads 395 news articles of Reuters as counts of words, from the package lda: 4,258 words, 84,010 tokens.

They stand in for NYTimes, which has 300,000 articles. The order of words within an article is not known.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from experiments.data.packages import REUTERS

_TEST_EVERY = 10  # one article in ten belongs to the test set


@dataclasses.dataclass(frozen=True)
class Tokens:
    """Articles as tokens: "words" and "articles", int32 [n], both from 0 on."""

    words: np.ndarray
    articles: np.ndarray


@dataclasses.dataclass(frozen=True)
class Reuters:
    """Articles for training and for tests, and how many different words there are."""

    train: Tokens
    test: Tokens
    vocabulary: int


def load() -> Reuters:
    """Reads the articles.

    Raises:
      FileNotFoundError: the package was not downloaded.
    """
    articles = []
    for line in REUTERS.read("lda/tests/reuters.ldac").decode().splitlines():
        pairs = [pair.split(":") for pair in line.split()[1:]]
        articles.append(np.repeat([int(word) for word, _ in pairs], [int(count) for _, count in pairs]))
    test = articles[::_TEST_EVERY]
    train = [words for i, words in enumerate(articles) if i % _TEST_EVERY]
    return Reuters(_tokens(train), _tokens(test), 1 + max(int(words.max()) for words in articles))


def _tokens(articles: list[np.ndarray]) -> Tokens:
    numbers = np.repeat(np.arange(len(articles)), [len(words) for words in articles])
    return Tokens(np.concatenate(articles).astype(np.int32), numbers.astype(np.int32))
