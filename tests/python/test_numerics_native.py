"""Every variant of the native codec gives the bits of the NumPy specification."""

from __future__ import annotations

import numpy as np
import pytest

from jaxina import errors, numerics
from jaxina._native import numerics as native

BLOCK_SIZE = 61  # no multiple of any vector width
CODECS = native.codec_names()


def any_floats(rng, size) -> np.ndarray:
    """Draws every bit pattern with the same probability, and a few special values."""
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 1.5, -3.4028235e38], np.float32)
    x = rng.integers(0, 2**32, size, np.uint32).view(np.float32)
    return np.where(rng.random(size) < 0.02, rng.choice(special, size), x)


def same_bits(actual, expected) -> None:
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    view = np.uint32 if actual.dtype == np.float32 else actual.dtype
    np.testing.assert_array_equal(actual.view(view), expected.view(view))


def test_this_processor_runs_the_scalar_codec_and_the_one_in_use():
    assert "scalar" in CODECS
    assert native.codec_name() in CODECS


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 15, 61, 62, 20000])
def test_block_exponents(codec, size):
    x = any_floats(np.random.default_rng(size), size)
    for finite_only in (False, True):
        actual = native.block_exponents(codec, x, BLOCK_SIZE, finite_only)
        same_bits(actual, numerics.block_exponents(x, BLOCK_SIZE, finite_only=finite_only))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7, 8, 100, 256, 512, 1023, 1024])
def test_quantize_and_dequantize(codec, workers):
    rng = np.random.default_rng(workers)
    x = any_floats(rng, BLOCK_SIZE * 510 - 5)
    exponents = rng.permutation(np.arange(510) % 255).astype(np.uint8)
    expected = numerics.quantize(x, exponents, workers, BLOCK_SIZE)
    same_bits(native.quantize(codec, x, exponents, workers, BLOCK_SIZE), expected)

    own = numerics.block_exponents(x, BLOCK_SIZE, finite_only=True)
    expected = numerics.quantize(x, own, workers, BLOCK_SIZE)
    same_bits(native.quantize(codec, x, own, workers, BLOCK_SIZE), expected)

    words = (rng.integers(-(2**31), 2**31, x.size) >> rng.integers(0, 31, x.size)).astype(np.int32)
    expected = numerics.dequantize(words, exponents, workers, BLOCK_SIZE)
    same_bits(native.dequantize(codec, words, exponents, workers, BLOCK_SIZE), expected)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("workers", [1, 3, 40])
def test_all_reduce(codec, workers):
    """Does what a transport does, with the codec: exponents, quantize, sum, dequantize, flags."""
    rng = np.random.default_rng(workers)
    # Most values are ordinary and have similar exponents, so that sums of many finite values occur, too.
    arrays = []
    for _ in range(workers):
        x = rng.standard_normal(3000).astype(np.float32)
        arrays.append(np.where(rng.random(x.size) < 0.2 / workers, any_floats(rng, x.size), x))
    exponents = np.max([native.block_exponents(codec, x, BLOCK_SIZE, True) for x in arrays], axis=0)
    words = np.zeros(3000, np.int32)
    flags = np.zeros(3000, np.uint32)
    for x in arrays:
        words += native.quantize(codec, x, exponents, workers, BLOCK_SIZE)
        flags += native.non_finite_flags(codec, x)
    y = native.dequantize(codec, words, exponents, workers, BLOCK_SIZE)
    y = native.apply_non_finite_flags(codec, flags, y)
    same_bits(y, numerics.all_reduce_reference(arrays, BLOCK_SIZE))


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("workers", [1, 3, 100])
@pytest.mark.parametrize("seed", [None, 0, 2**64 - 1])
def test_the_gpu_kernels_arithmetic(bits, workers, seed):
    """The kernels' arithmetic gives the specification's bits for every element, for all widths and roundings."""
    rng = np.random.default_rng(bits * workers)
    x = any_floats(rng, BLOCK_SIZE * 510 - 5)
    own = numerics.block_exponents(x, BLOCK_SIZE, finite_only=True)
    for exponents in (rng.permutation(np.arange(510) % 255).astype(np.uint8), own):
        expected = numerics.quantize(x, exponents, workers, BLOCK_SIZE, bits=bits, seed=seed)
        same_bits(native.encode_elements(x, exponents, BLOCK_SIZE, bits, workers, seed), expected)

        words = (rng.integers(-(2**31), 2**31, x.size) >> rng.integers(32 - bits, 32, x.size)).astype(np.int32)
        shift = 0 if bits == 32 else (workers - 1).bit_length()
        expected = numerics.dequantize(words, exponents, workers, BLOCK_SIZE, bits=bits, shift=shift)
        same_bits(native.decode_elements(words, exponents, BLOCK_SIZE, bits, workers, shift), expected)


def test_wrong_input_is_refused():
    x = np.ones(10, np.float32)
    one = np.ones(1, np.uint8)
    with pytest.raises(errors.InvalidArgumentError, match="sse9"):
        native.quantize("sse9", x, one, 2, 16)
    with pytest.raises(errors.TooManyWorkersError, match="1024"):
        native.quantize("scalar", x, one, 1025, 16)
    with pytest.raises(errors.InvalidArgumentError, match="blocks"):
        native.quantize("scalar", x, one, 2, 4)
    with pytest.raises(errors.InvalidArgumentError, match="255"):
        native.dequantize("scalar", np.ones(10, np.int32), np.array([255], np.uint8), 2, 16)
    with pytest.raises(errors.InvalidArgumentError, match="8, 16 or 32 bits"):
        native.encode_elements(x, one, 16, 24)
    with pytest.raises(errors.InvalidArgumentError, match="shifted"):
        native.decode_elements(np.ones(10, np.int32), one, 16, 32, shift=1)
    with pytest.raises(errors.InvalidArgumentError, match="0 to 20 bits"):
        native.decode_elements(np.ones(10, np.int32), one, 16, 8, shift=21)
    with pytest.raises(errors.InvalidArgumentError, match="block_size"):
        native.block_exponents("scalar", x, 0)
    with pytest.raises(errors.InvalidArgumentError, match="size"):
        native.apply_non_finite_flags("scalar", np.ones(9, np.uint32), x)
