"""Loads MovieLens 100k from inside the wheel of recbole. Its terms forbid redistribution, so it is never unpacked.

F. M. Harper and J. A. Konstan, The MovieLens Datasets: History and Context, ACM TiiS 5(4), 2015.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from experiments.data.packages import MOVIELENS

CANDIDATES = 100


@dataclasses.dataclass(frozen=True)
class Ratings:
    """Interactions of users with items. Every rating counts as an interaction, as in He et al. (2017).

    Attributes:
      users, items: their numbers.
      pairs: int32 [n, 2], the (user, item) pairs to train with: all but the last two of each user.
      known: bool [users, items], the pairs to train with.
      validation, test: int32 [users, 100]. Each user's last item but one, or last one, then 99 items that the user
        never rated.
    """

    users: int
    items: int
    pairs: np.ndarray
    known: np.ndarray
    validation: np.ndarray
    test: np.ndarray


@functools.cache
def load() -> Ratings:
    text = MOVIELENS.read("recbole/dataset_example/ml-100k/ml-100k.inter").decode()
    table = np.array([line.split("\t") for line in text.splitlines()[1:]], np.float64).astype(np.int64)
    _, user = np.unique(table[:, 0], return_inverse=True)
    _, item = np.unique(table[:, 1], return_inverse=True)
    order = np.lexsort((item, table[:, 3], user))  # by user, then by time
    user, item = user[order], item[order]
    last = np.append(user[1:] != user[:-1], True)
    last_but_one = np.append(last[1:], False)
    users, items = int(user.max()) + 1, int(item.max()) + 1
    seen = np.zeros((users, items), bool)
    seen[user, item] = True
    rng = np.random.default_rng(2021)

    def candidates(chosen: np.ndarray) -> np.ndarray:
        unseen = [rng.choice(np.flatnonzero(~row), CANDIDATES - 1, replace=False) for row in seen]
        return np.concatenate([item[chosen][:, None], np.stack(unseen)], axis=1).astype(np.int32)

    test, validation = candidates(last), candidates(last_but_one)
    pairs = np.stack([user, item], axis=1)[~(last | last_but_one)].astype(np.int32)
    known = np.zeros((users, items), bool)
    known[pairs[:, 0], pairs[:, 1]] = True
    return Ratings(
        users,
        items,
        pairs=pairs,
        known=known,
        validation=validation,
        test=test,
    )
