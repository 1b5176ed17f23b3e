"""Sums of narrow words keep the specification's promises. The tests compute in exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxina import numerics
from jaxina.numerics.random_numbers import Seeds

FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
SIMILAR = st.floats(-2, 2, width=32)
SEEDS = st.one_of(st.none(), st.integers(0, 2**64 - 1))
NARROW = st.sampled_from([8, 16])


@st.composite
def device_arrays(draw, values=FINITE, max_size=8):
    """Draws one float32 array per device, how many devices a worker has, and a block size."""
    workers, devices = draw(st.sampled_from([(1, 1), (2, 1), (3, 1), (5, 1), (1, 3), (2, 2), (3, 3), (2, 5)]))
    size = draw(st.integers(1, max_size))
    rows = st.lists(values, min_size=size, max_size=size)
    arrays = [np.array(draw(rows), np.float32) for _ in range(workers * devices)]
    return arrays, devices, draw(st.integers(1, max_size + 1))


def by_the_specification(values: list[float], bits: int, devices: int, seed: int | None, index: int) -> Fraction:
    """Sums one element's values, a block of their own, in rational numbers. `index` finds its random numbers."""
    largest = max(abs(Fraction(v)) for v in values)
    m = -126 if largest == 0 else max(math.frexp(float(largest))[1], -126)
    unit, limit = Fraction(2) ** (m - bits + 1), 2 ** (bits - 1) - 1
    s1 = None if seed is None else numerics.random64(seed, 7)

    def random(which: int) -> int:
        return numerics.random64(numerics.random64(s1, which), index) >> 32

    def up(value: float, rank: int) -> int:
        scaled = abs(Fraction(value)) / unit
        if seed is None:
            word = round(scaled)  # Python rounds halves to even
        else:
            rest = math.floor((scaled - math.floor(scaled)) * 2**32)
            word = math.floor(scaled) + (random(1 + rank) < rest)
        return min(word, limit) * (-1 if value < 0 else 1)

    def shifted(v: int, shift: int, which: int) -> int:
        if seed is None:
            return round(Fraction(v, 2**shift))
        return math.floor(Fraction(v, 2**shift) + Fraction(random(which) // 2 ** (32 - shift), 2**shift))

    words = [up(v, rank) for rank, v in enumerate(values)]
    within, down = (devices - 1).bit_length(), (len(words) // devices - 1).bit_length()
    sums = [shifted(sum(words[i : i + devices]), within, 2**32 + i // devices) for i in range(0, len(words), devices)]
    result = shifted(sum(sums), down, 0)
    assert abs(result) <= limit, "the result fits the words again"
    return result * unit * 2 ** (within + down)


@given(device_arrays(values=st.one_of(FINITE, SIMILAR)), NARROW, SEEDS, st.integers(0, 2**40))
@settings(max_examples=200)
def test_sums_are_those_of_the_specification(drawn, bits, seed, first_block):
    arrays, devices, _ = drawn
    y = numerics.all_reduce_reference(
        arrays, 1, bits=bits, devices_per_worker=devices, seed=seed, collective=7, first_block=first_block
    )
    for i, value in enumerate(y):
        exact = by_the_specification([float(a[i]) for a in arrays], bits, devices, seed, first_block + i)
        with np.errstate(over="ignore"):
            assert value == np.float32(float(exact)), "few bits: float32 rounds only beyond its range"


@given(device_arrays(values=st.one_of(FINITE, SIMILAR)), NARROW, SEEDS)
@settings(max_examples=200)
def test_error_is_within_the_bound(drawn, bits, seed):
    arrays, devices, block_size = drawn
    y = numerics.all_reduce_reference(arrays, block_size, bits=bits, devices_per_worker=devices, seed=seed)
    exponents = np.max([numerics.block_exponents(a, block_size) for a in arrays], axis=0)
    bound = numerics.error_bound(
        exponents, len(arrays), bits=bits, devices_per_worker=devices, stochastic=seed is not None
    )
    for i, value in enumerate(y):
        exact = sum(Fraction(float(a[i])) for a in arrays)
        allowed = Fraction(float(bound[i // block_size])) + Fraction(2) ** -150
        if np.isinf(value):
            assert abs(exact) + allowed >= Fraction(2) ** 128
        else:
            assert abs(Fraction(float(value)) - exact) <= allowed


@pytest.mark.parametrize("bits", [8, 16])
def test_the_bound_is_met(bits):
    """Each of its terms is reached by some sum, so that none is too large."""
    units = 2.0 ** (bits - 1)  # of a block whose largest value is just under 1
    below_one = np.nextafter(np.float32(1), np.float32(0))

    def error(values: list[float], devices: int) -> float:
        """In units. Every value has a block with a 1 - 2^-24, so that one word is 1 / `units`."""
        arrays = [np.array([v, 0], np.float32) for v in values]
        arrays[0][1] = below_one
        y = numerics.all_reduce_reference(arrays, 2, bits=bits, devices_per_worker=devices)
        return abs(float(y[0]) - math.fsum(float(a[0]) for a in arrays)) * units

    def bound(workers: int, devices: int) -> float:
        return float(numerics.error_bound([126], workers, bits=bits, devices_per_worker=devices)[0]) * units

    up = 1 - 2.0 ** (bits - 25)
    assert error([below_one], 1) == bound(1, 1) == up
    assert bound(2, 1) == bound(2, 2) == 2 * up + 1
    assert error([1 / units, 0], 1) == error([1 / units, 0], 2) == 1  # a sum of 1, shifted by 1, is a tie
    assert bound(4, 2) == 4 * up + 2 * 1 + 2 * 1
    assert error([2 / units, 0, 0, 0], 2) == 2  # down: both workers give 1 and 0, whose sum is a tie
    assert error([1 / units, 0, 1 / units, 0], 2) == 2  # within: both workers' sums are ties


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("workers", [1, 2, 3, 64, 511, 1024])
def test_the_largest_sums_fit_the_words(bits, workers):
    """No value is cut off but what clamps to Q: the result is n Q, rounded to a multiple of 2^L."""
    limit = 2 ** (bits - 1) - 1
    x = np.array([3.4028235e38, -3.4028235e38, 1.0], np.float32)
    words = numerics.quantize(x, [254, 254, 127], workers, 1, bits=bits)
    assert words.tolist() == [limit, -limit, 2 ** (bits - 2)]
    shift = (workers - 1).bit_length()
    for random in (None, np.full(3, 2**32 - 1, np.uint32)):
        result = numerics.round_shift(words * workers, shift, random)
        assert np.abs(result).max() <= limit
        assert np.abs(result * 2**shift - words * workers).max() < 2**shift


@given(st.integers(-(2**26), 2**26), st.integers(0, 11), st.integers(0, 2**32 - 1))
def test_round_shift_divides_by_a_power_of_two(v, shift, random):
    quotient = Fraction(v, 2**shift)
    assert numerics.round_shift([v], shift).tolist() == [round(quotient)]
    drawn = numerics.round_shift([v], shift, np.array([random], np.uint32)).tolist()
    assert drawn == [math.floor(quotient + Fraction(random * 2**shift // 2**32, 2**shift))]


def test_rounding_to_nearest_does_not_drift():
    """Of all sums of two words, the mean error is zero. If halves went up, it would be a quarter of a unit."""
    words = np.arange(-254, 255, dtype=np.int32)
    counts = 255 - np.abs(words)  # how many pairs of words give that sum
    errors = numerics.round_shift(words, 1) - words / 2
    assert (counts * errors).sum() == 0
    half_up = ((words + 1) >> 1) - words / 2
    assert (counts * half_up).sum() / counts.sum() == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("bits", [8, 16])
def test_special_values_pass_beside_the_words(bits):
    nan, inf = np.nan, np.inf
    arrays = [np.array([1, nan, inf, inf, -inf, 0], np.float32), np.array([0.5, 1, 1, -inf, 1, -0.0], np.float32)]
    y = numerics.all_reduce_reference(arrays, 6, bits=bits)
    np.testing.assert_array_equal(y, np.array([1.5, nan, inf, nan, -inf, 0], np.float32))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_integers_stay_exact(dtype):
    arrays = [np.array([1_000_001, 5], dtype)] * 3
    for seed in (None, 1):
        assert numerics.all_reduce_reference(arrays, bits=8, seed=seed).tolist() == [3_000_003, 15]


def test_words_of_32_bits_have_no_shift_and_no_seed():
    arrays = list(np.random.default_rng(0).standard_normal((4, 50)).astype(np.float32))
    y = numerics.all_reduce_reference(arrays)
    np.testing.assert_array_equal(numerics.all_reduce_reference(arrays, devices_per_worker=2, seed=3), y)


# ---- random numbers ----


def test_random_numbers_are_splitmix64():
    """The first numbers from seed 1234567, as published with the algorithm's C code by others."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [numerics.random64(1234567, i) for i in range(4)] == published
    assert numerics.random_words(1234567, 4).tolist() == [value >> 32 for value in published]
    assert numerics.random_words(1234567, 2, first=2).tolist() == [value >> 32 for value in published[2:]]


def test_every_place_and_role_has_numbers_of_its_own():
    seeds = [Seeds(5, 0), Seeds(5, 1), Seeds(6, 0)]
    made = [s for one in seeds for s in (one.down, one.up(0), one.up(1), one.within(0), one.within(1))]
    assert len({numerics.random64(s, i) for s in made for i in range(10)}) == 150
    assert seeds[0].down == numerics.random64(numerics.random64(5, 0), 0)
    assert seeds[0].up(3) == numerics.random64(numerics.random64(5, 0), 4)
    assert seeds[0].within(3) == numerics.random64(numerics.random64(5, 0), 2**32 + 3)


@pytest.mark.parametrize("value", [0.3, -0.3, 17.75, -1e-3])
def test_up_is_unbiased(value):
    """Of 10,000 elements of one value, the mean of the words is within four standard errors of the scaled value."""
    x = np.full(10_000, value, np.float32)
    words = numerics.quantize(x, [131], 1, x.size, bits=8, seed=3)  # m = 5, so S = 2
    scaled = float(x[0]) * 4
    spread = np.sqrt((np.ceil(scaled) - scaled) * (scaled - np.floor(scaled)) / x.size)
    assert abs(words.mean() - scaled) <= 4 * spread


@pytest.mark.parametrize("v", [1, -1, 37, -150])
@pytest.mark.parametrize("shift", [1, 2, 6])
def test_down_is_unbiased(v, shift):
    """As up, for the rounding shift of one sum."""
    random = numerics.random_words(4, 10_000)
    results = numerics.round_shift(np.full(random.size, v), shift, random)
    exact = v / 2**shift
    spread = np.sqrt((np.ceil(exact) - exact) * (exact - np.floor(exact)) / random.size)
    assert abs(results.mean() - exact) <= 4 * spread
