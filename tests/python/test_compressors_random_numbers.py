"""The random numbers of compressors: uniform, fair, independent, and the same under any transformation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32
from scipy import stats

from jaxina.compressors.random_numbers import coins, uniform, words

KEY = jax.random.key(3)
N = 1 << 16


def test_words_are_those_of_threefry():
    """The published answers for a counter and a key of zeros, and of ones (Random123, kat_vectors)."""
    for value, answer in ((0, (0x6B200159, 0x99BA4EFE)), (0xFFFFFFFF, (0x1CB996FC, 0xBB002BE7))):
        one = jnp.uint32(value)
        assert tuple(threefry_2x32((one, one), jnp.array([value, value], jnp.uint32)).tolist()) == answer
    first, second = jax.random.bits(KEY, (2,), jnp.uint32)
    expected = threefry_2x32((first, second), jnp.array([1, 3], jnp.uint32))
    np.testing.assert_array_equal(words(KEY, 4)[jnp.array([1, 3])], expected)


def test_every_bit_of_words_is_fair_and_no_two_words_are_alike():
    made = np.asarray(words(KEY, N))
    ones = ((made[:, None] >> np.arange(32, dtype=np.uint32)) & 1).sum(axis=0)
    assert (np.abs(ones - N / 2) < 4.5 * np.sqrt(N / 4)).all()
    # By chance about half a pair of 65,536 words is equal.
    assert N - len(np.unique(made)) <= 4


@pytest.mark.parametrize("key", [KEY, jax.random.key(3, impl="rbg")], ids=["threefry", "rbg"])
def test_uniform(key):
    made = np.asarray(uniform(key, (N // 8, 8)))
    assert made.shape == (N // 8, 8) and made.dtype == np.float32
    assert made.min() >= 0 and made.max() < 1
    assert (made * 2**24 % 1 == 0).all()
    assert stats.kstest(made.reshape(-1), "uniform").pvalue > 1e-3
    for lag in (1, 8, N // 2):  # the two words of a block are N / 2 apart
        assert abs(np.corrcoef(made.reshape(-1)[lag:], made.reshape(-1)[:-lag])[0, 1]) < 4.5 / np.sqrt(N - lag)


def test_coins():
    made = np.asarray(coins(KEY, (N // 8, 8)))
    assert made.shape == (N // 8, 8) and made.dtype == np.bool_
    flat = made.reshape(-1) * 2.0 - 1
    assert abs(flat.mean()) < 4.5 / np.sqrt(N)
    for lag in (1, 2, 31, 32, 33, N // 2):
        assert abs((flat[lag:] * flat[:-lag]).mean()) < 4.5 / np.sqrt(N - lag)


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 1001])
@pytest.mark.parametrize("make", [uniform, coins])
def test_all_lengths_and_keys_of_their_own(make, count):
    keys = jax.random.split(KEY, 3)
    alone = [np.asarray(make(key, (count,))) for key in keys]
    together = np.asarray(jax.jit(jax.vmap(lambda key: make(key, (count,))))(keys))
    np.testing.assert_array_equal(together, alone)
    if count > 30:
        assert len({one.tobytes() for one in alone}) == 3
