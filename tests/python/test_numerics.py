"""The NumPy specification keeps its promises. The tests compute in exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxina import numerics
from jaxina.numerics import paper_scale

FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
ANY = st.floats(width=32)
SOME_WORKERS = [1, 2, 3, 4, 5, 7, 8, 64, 255, 256, 257, 511, 512, 513, 1000, 1023, 1024]


@st.composite
def worker_arrays(draw, values=FINITE, max_workers=6, max_size=12):
    """Draws one float32 array per worker, all of one size, and a block size."""
    workers = draw(st.integers(1, max_workers))
    size = draw(st.integers(1, max_size))
    lists = [draw(st.lists(values, min_size=size, max_size=size)) for _ in range(workers)]
    return [np.array(values, np.float32) for values in lists], draw(st.integers(1, max_size + 1))


def bits(x) -> np.ndarray:
    return np.asarray(x, np.float32).view(np.uint32)


def global_exponents(arrays, block_size):
    return np.max([numerics.block_exponents(a, block_size, finite_only=True) for a in arrays], 0)


def assert_close(y, exact, allowed):
    """Asserts that y, a float32, is off `exact` by at most `allowed` plus half an ulp."""
    if np.isinf(y):  # the sum must then be too large to round to the largest float32
        assert abs(exact) + allowed >= Fraction(2) ** 128 - Fraction(2) ** 103
        assert (y > 0) == (exact > 0)
        return
    ulp = Fraction(2) ** max(int(np.frexp(y)[1]) - 24, -149)
    assert abs(Fraction(float(y)) - exact) <= allowed + ulp / 2


# ---- exponents ----


@given(worker_arrays(max_workers=1, max_size=40))
def test_exponent_is_the_smallest_power_of_two_above_the_block(drawn):
    (x,), block_size = drawn
    exponents = numerics.block_exponents(x, block_size)
    assert exponents.dtype == np.uint8
    assert exponents.size == -(-x.size // block_size)
    for block, b in enumerate(exponents):
        largest = max(abs(Fraction(float(v))) for v in x[block * block_size : (block + 1) * block_size])
        m = int(b) - 126
        assert largest < Fraction(2) ** m
        if b > 0:
            assert largest >= Fraction(2) ** (m - 1)


def test_exponents_of_special_blocks():
    nan, inf = np.nan, np.inf
    x = np.array([0, -0.0, nan, 1, inf, 2, -inf, nan, 1e-45, 0, 3.4e38, 1], np.float32)
    assert numerics.block_exponents(x, 2).tolist() == [0, 255, 255, 255, 0, 254]
    assert numerics.block_exponents(x, 2, finite_only=True).tolist() == [0, 127, 128, 0, 0, 254]


# ---- sums ----


@given(worker_arrays())
@settings(max_examples=300)
def test_error_is_within_the_bound(drawn):
    arrays, block_size = drawn
    y = numerics.all_reduce_reference(arrays, block_size)
    bound = numerics.error_bound(global_exponents(arrays, block_size), len(arrays))
    for i, value in enumerate(y):
        exact = sum(Fraction(float(a[i])) for a in arrays)
        assert_close(value, exact, Fraction(float(bound[i // block_size])))


@pytest.mark.parametrize("workers", SOME_WORKERS)
def test_each_word_is_within_the_bound_even_where_it_is_clamped(workers):
    rng = np.random.default_rng(workers)
    largest = np.nextafter(np.float32(2), np.float32(0))
    x = rng.uniform(-2, 2, 500).astype(np.float32)
    x[:4] = [largest, -largest, np.nextafter(largest, np.float32(0)), 1]
    exponents = numerics.block_exponents(x, x.size)
    words = numerics.quantize(x, exponents, workers, x.size)
    power = int(numerics.scale_exponent(exponents, workers)[0])
    errors = [abs(int(w) * Fraction(2) ** -power - Fraction(float(v))) for w, v in zip(words, x, strict=True)]
    bound = Fraction(float(numerics.error_bound(exponents, workers)[0])) / workers
    assert max(errors) <= bound
    if workers >= 512 and workers & (workers - 1) == 0:
        assert max(errors) == bound  # the largest value is off by exactly the bound
    else:
        assert bound == Fraction(2) ** (-power - 1)


def test_no_sum_overflows_and_the_range_is_used_for_every_number_of_workers():
    largest = np.finfo(np.float32).max
    x = np.array([largest, -largest], np.float32)
    for workers in range(1, numerics.MAX_WORKERS + 1):
        words = numerics.quantize(x, [254], workers, 2).astype(np.int64) * workers
        assert np.abs(words).max() <= 2**31 - 1
        assert np.abs(words).min() > 2**29
        assert workers * numerics.quantized_limit(workers) <= 2**31 - 1


@given(
    st.integers(1, 16).flatmap(
        lambda workers: st.lists(
            st.lists(st.integers(-(2**18), 2**18), min_size=5, max_size=5),
            min_size=workers,
            max_size=workers,
        )
    ),
    st.integers(-100, 60),
)
def test_integers_and_short_dyadic_fractions_sum_exactly(rows, power):
    arrays = [np.ldexp(np.array(row, np.float64), power).astype(np.float32) for row in rows]
    y = numerics.all_reduce_reference(arrays)
    # A sum has up to 18 + 4 bits, which fit into float32's 24.
    expected = np.ldexp(np.sum(np.array(rows, np.int64), axis=0).astype(np.float64), power)
    assert y.astype(np.float64).tolist() == expected.tolist()


@given(worker_arrays(values=ANY), st.randoms(use_true_random=False))
def test_no_order_of_workers_changes_a_bit(drawn, random):
    arrays, block_size = drawn
    expected = bits(numerics.all_reduce_reference(arrays, block_size)).tolist()
    random.shuffle(arrays)
    assert bits(numerics.all_reduce_reference(arrays, block_size)).tolist() == expected


@given(worker_arrays(values=st.one_of(ANY, st.sampled_from([np.nan, np.inf, -np.inf])), max_workers=4))
def test_non_finite_elements_are_what_ieee_addition_gives_and_the_others_are_summed(drawn):
    arrays, block_size = drawn
    y = numerics.all_reduce_reference(arrays, block_size)
    finite = np.all(np.isfinite(arrays), axis=0)
    # A float64 sum of 4 float32 values cannot overflow, so it is not finite only if an input is not.
    with np.errstate(invalid="ignore"):
        ieee = np.sum(np.array(arrays, np.float64), axis=0)
    assert np.array_equal(y[~finite].astype(np.float64), ieee[~finite], equal_nan=True)
    cleaned = [np.where(np.isfinite(a), a, np.float32(0)) for a in arrays]
    without = numerics.all_reduce_reference(cleaned, block_size)
    assert bits(y[finite]).tolist() == bits(without[finite]).tolist()


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_integers_wrap_modulo_two_to_the_32(dtype):
    top = np.iinfo(dtype).max
    arrays = [np.array([[top, 5], [1, 0]], dtype), np.array([[1, 6], [top, 0]], dtype)]
    y = numerics.all_reduce_reference(arrays)
    assert y.dtype == dtype
    assert y.tolist() == [[np.iinfo(dtype).min, 11], [np.iinfo(dtype).min, 0]]


def test_one_worker_gets_its_floats_back():
    x = np.array([3.4028235e38, 1e-45, -1.5, 0, 1e-38], np.float32)
    assert bits(numerics.all_reduce_reference([x], 1)).tolist() == bits(x).tolist()


def test_the_sum_overflows_as_float32_does():
    x = np.array([3.4028235e38, -3.4028235e38, 1], np.float32)
    assert numerics.all_reduce_reference([x, x], 1).tolist() == [np.inf, -np.inf, 2]


def test_shape_is_kept_and_empty_arrays_are_allowed():
    assert numerics.all_reduce_reference([np.ones((2, 3), np.float32)] * 2).tolist() == [[2] * 3] * 2
    assert numerics.all_reduce_reference([np.ones((0, 3), np.float32)] * 2).shape == (0, 3)


# ---- wrong input ----


def test_wrong_input_is_refused():
    one = np.ones(4, np.float32)
    with pytest.raises(TypeError, match="float64"):
        numerics.all_reduce_reference([np.ones(3)])
    with pytest.raises(ValueError, match="same shape and dtype"):
        numerics.all_reduce_reference([one, np.ones(5, np.float32)])
    with pytest.raises(ValueError, match="workers"):
        numerics.all_reduce_reference([])
    with pytest.raises(ValueError, match="workers"):
        numerics.quantize(one, [127], 1025)
    with pytest.raises(ValueError, match="block_size"):
        numerics.block_exponents(one, 0)
    with pytest.raises(ValueError, match="exponents"):
        numerics.quantize(one, [127, 127], 2)
    with pytest.raises(ValueError, match="255"):
        numerics.dequantize(np.ones(4, np.int32), [255], 2)
    with pytest.raises(ValueError, match="8, 16 or 32 bits, not 12"):
        numerics.all_reduce_reference([one], bits=12)
    with pytest.raises(ValueError, match="3 arrays"):
        numerics.all_reduce_reference([one] * 3, bits=8, devices_per_worker=2)


# ---- the paper's scale ----


@given(st.lists(st.lists(FINITE, min_size=6, max_size=6), min_size=1, max_size=8))
def test_paper_scale_is_within_half_a_word_per_worker(rows):
    arrays = [np.array(row, np.float32) for row in rows]
    y = paper_scale.all_reduce(arrays, 6)
    f = float(paper_scale.scale(global_exponents(arrays, 6), len(arrays))[0])
    for i, value in enumerate(y):
        exact = sum(Fraction(float(a[i])) for a in arrays)
        # f x and (sum q) / f are each rounded once in float64: by 2^-52 of a value below 2^31 words.
        allowed = Fraction(len(arrays)) * (Fraction(1, 2) + Fraction(1, 2**20)) / Fraction(f)
        assert_close(value, exact, allowed)


def test_paper_scale_loses_integers_and_can_wrap_where_the_specification_does_neither():
    integers = [np.array([1, 2, 3, 1000003], np.float32)] * 3
    assert numerics.all_reduce_reference(integers).tolist() == [3, 6, 9, 3000009]
    exponents = numerics.block_exponents(integers[0])
    f = paper_scale.scale(exponents, 3)[0]
    words = paper_scale.quantize(integers[0], exponents, 3)
    assert np.any(words * (1 / f) != integers[0])

    largest = [np.array([np.nextafter(np.float32(1), np.float32(0))], np.float32)] * 1000
    assert numerics.all_reduce_reference(largest)[0] == pytest.approx(1000, rel=1e-6)
    words = paper_scale.quantize(largest[0], numerics.block_exponents(largest[0]), 1000)
    assert int(words[0]) * 1000 > 2**31 - 1
    assert paper_scale.all_reduce(largest)[0] < 0
