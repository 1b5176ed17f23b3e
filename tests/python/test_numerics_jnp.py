"""The jax.numpy form of the specification gives the bits of the NumPy form, under jit, also for subnormals."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest

from jaxina import numerics
from jaxina.numerics import jnp_random, jnp_reference

ELEMENTS = 4000
BLOCK_SIZE = 7
BLOCKS = -(-ELEMENTS // BLOCK_SIZE)
SPECIAL = np.array(
    [0, 0x80000000, 1, 0x80000001, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0xFF7FFFFF]
    + [0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFC12345, 0x3F800000],
    np.uint32,
)


def any_floats(rng) -> np.ndarray:
    """Draws every bit pattern with the same probability, and special values more often."""
    words = rng.integers(0, 2**32, ELEMENTS, np.uint32)
    return np.where(rng.random(ELEMENTS) < 0.1, rng.choice(SPECIAL, ELEMENTS), words).view(np.float32)


def floats_near_ties(rng, exponents, workers, bits) -> np.ndarray:
    """Returns values at words and half words around 0, 2^22 and the limit, where rounding and clamping decide."""
    limit = numerics.quantized_limit(workers, bits)
    centres = rng.choice([0, 1, 2, 3, 2**22, 2**23, limit, limit // 2], ELEMENTS)
    scaled = (centres + rng.choice([-1, -0.5, -0.25, 0, 0.5, 0.75], ELEMENTS)) * rng.choice([-1, 1], ELEMENTS)
    power = np.repeat(numerics.scale_exponent(exponents, workers, bits), BLOCK_SIZE)[:ELEMENTS]
    with np.errstate(over="ignore"):
        return np.ldexp(scaled, -power).astype(np.float32)


def same_bits(actual, expected) -> None:
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if actual.dtype == np.float32:
        actual, expected = actual.view(np.uint32), expected.view(np.uint32)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("finite_only", [False, True])
def test_block_exponents(finite_only):
    x = any_floats(np.random.default_rng(1))
    x[: ELEMENTS // 2] = np.where(np.isfinite(x), x, np.float32(0.5))[: ELEMENTS // 2]
    actual = jax.jit(partial(jnp_reference.block_exponents, block_size=BLOCK_SIZE, finite_only=finite_only))(x)
    same_bits(actual, numerics.block_exponents(x, BLOCK_SIZE, finite_only=finite_only))


@pytest.mark.parametrize(
    "workers, bits, seed",
    [(workers, 32, None) for workers in (1, 2, 3, 5, 8, 100, 256, 512, 1023, 1024)]
    + [(3, bits, seed) for bits in (8, 16, 32) for seed in (None, 0, 2**64 - 5)],
)
def test_quantize_and_dequantize(workers, bits, seed):
    rng = np.random.default_rng(workers)
    static = {"workers": workers, "block_size": BLOCK_SIZE, "bits": bits}
    quantize = jax.jit(partial(jnp_reference.quantize, **static, seed=seed, first_block=5))
    shift = 0 if bits == 32 else 3
    dequantize = jax.jit(partial(jnp_reference.dequantize, **static, shift=shift))
    for _ in range(5):
        # There are 572 blocks, so every exponent byte from 0 to 254 occurs at least twice.
        exponents = rng.permutation(np.arange(BLOCKS) % 255).astype(np.uint8)
        for x in any_floats(rng), floats_near_ties(rng, exponents, workers, bits):
            expected = numerics.quantize(x, exponents, **static, seed=seed, first_block=5)
            same_bits(quantize(x, exponents), expected)
        words = rng.integers(-(2**31), 2**31, ELEMENTS).astype(np.int32)
        words >>= rng.integers(32 - bits, 32, ELEMENTS)
        expected = numerics.dequantize(words, exponents, **static, shift=shift)
        assert np.any((expected != 0) & (np.abs(expected) < 2.0**-126)), "subnormals are met"
        same_bits(dequantize(words, exponents), expected)


@pytest.mark.parametrize("shift", [0, 1, 2, 7, 11])
def test_round_shift(shift):
    rng = np.random.default_rng(shift)
    words = rng.integers(-(2**26), 2**26, ELEMENTS).astype(np.int32) >> rng.integers(0, 26, ELEMENTS)
    for random in (None, rng.integers(0, 2**32, ELEMENTS, np.uint32)):
        actual = jax.jit(partial(jnp_reference.round_shift, shift=shift))(words, random=random)
        same_bits(actual, numerics.round_shift(words, shift, random))


@pytest.mark.parametrize("first", [0, 3, 2**32 - 50, 2**41 + 1])
def test_random_numbers(first):
    for seed in (0, 1, 2**32 - 1, 2**64 - 1, 0x0123456789ABCDEF):
        halves = np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
        expected = numerics.random_words(seed, 100, first)
        same_bits(jnp_random.random_words(seed, 100, first), expected)
        same_bits(jax.jit(partial(jnp_random.random_words, count=100, first=first))(halves), expected)
        made = np.asarray(jnp_random.random64(halves, first))
        assert (int(made[0]) << 32) + int(made[1]) == numerics.random64(seed, first)
    traced = jax.jit(jnp_random.random64)(np.zeros(2, np.uint32), np.int32(7))
    same_bits(traced, np.array(divmod(numerics.random64(0, 7), 2**32), np.uint32))


@pytest.mark.parametrize(
    "workers, options",
    [
        (1, {}),
        (2, {}),
        (5, {}),
        (5, {"bits": 8}),
        (6, {"bits": 16, "devices_per_worker": 2}),
        (3, {"bits": 8, "devices_per_worker": 3, "seed": 1}),
        (6, {"bits": 8, "devices_per_worker": 3, "seed": 2**63, "collective": 77, "first_block": 9}),
        (2, {"bits": 16, "seed": 4}),
    ],
)
def test_all_reduce(workers, options):
    rng = np.random.default_rng(workers)
    all_reduce = jax.jit(partial(jnp_reference.all_reduce_reference, block_size=BLOCK_SIZE, **options))
    for exponent_range in (254, 30, 3):
        arrays = []
        for _ in range(workers):
            x = any_floats(rng).view(np.uint32)
            # With fewer exponents, blocks have values of similar size. Some blocks are all subnormal.
            magnitude = (x & 0x7FFFFF) | ((x >> 23) % exponent_range) << 23
            special = rng.random(ELEMENTS) < 0.03
            arrays.append(np.where(special, x, magnitude | (x & 0x80000000)).view(np.float32))
        expected = numerics.all_reduce_reference([a.reshape(40, 100) for a in arrays], BLOCK_SIZE, **options)
        same_bits(all_reduce([a.reshape(40, 100) for a in arrays]), expected)


def test_wrong_input_is_refused():
    with pytest.raises(TypeError, match="int32"):
        jnp_reference.block_exponents(np.ones(3, np.int32))
    with pytest.raises(ValueError, match="exponents"):
        jnp_reference.quantize(np.ones(3, np.float32), np.ones(2, np.uint8), 2)
    with pytest.raises(ValueError, match="workers"):
        jnp_reference.quantize(np.ones(3, np.float32), np.ones(1, np.uint8), 0)
