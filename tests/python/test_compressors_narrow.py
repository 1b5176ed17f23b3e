"""The compressors `int8` and `int16` give the specification's sums of narrow words, and count their bytes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compressor_cases import get, initial, normal, steps

from jaxina import compressors, numerics
from jaxina.compressors import Context
from jaxina.errors import InvalidArgumentError

DRAWS = 1500


def sum_of(spec: str, gradients: list[np.ndarray]) -> np.ndarray:
    """Returns the sum that worker 0 gets in the first step."""

    class Sum(type(get(spec))):
        def mean(self, total, workers):
            return total

    compressor = Sum(**{name: getattr(get(spec), name) for name in ("bits", "block", "stochastic")})
    total, _ = steps(compressor, jnp.stack(gradients), initial(compressor, jnp.stack(gradients)))
    return np.asarray(total[0])


@pytest.mark.parametrize("spec, bits, block", [("int8", 8, 256), ("int16", 16, 256), ("int8:block=100", 8, 100)])
@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_the_sum_is_the_specification_s_bit_for_bit(spec, bits, block, workers):
    gradients = [normal(seed, (30, 33)) * np.float32(10.0) ** (seed - 42) for seed in range(40, 40 + workers)]
    expected = numerics.all_reduce_reference(gradients, block, bits=bits)
    np.testing.assert_array_equal(sum_of(spec, gradients).view(np.int32), expected.view(np.int32))


def test_stochastic_rounding_has_the_specification_s_seeds():
    """The leaf's key gives s1, from which the seeds of workers and aggregator are made as in a collective."""
    compressor, arrays, key = get("int8:stochastic"), [normal(seed, (500,)) for seed in (1, 2, 3)], jax.random.key(5)
    exponents = np.max([numerics.block_exponents(x) for x in arrays], axis=0)
    contexts = [Context((500,), 3, key, rank, {"exponents": jnp.asarray(exponents, jnp.int32)}) for rank in range(3)]
    high, low = (int(half) for half in np.asarray(compressor._seed(contexts[0])))
    s1, total = (high << 32) + low, np.zeros(500, np.int32)
    for rank, (x, context) in enumerate(zip(arrays, contexts, strict=True)):
        words = numerics.quantize(x, exponents, 3, bits=8, seed=numerics.random64(s1, 1 + rank))
        np.testing.assert_array_equal(compressor.encode(jnp.asarray(x), {}, context)[0]["words"], words)
        total += words
    random = numerics.random_words(numerics.random64(s1, 0), 500)
    answer = compressor.aggregate({"words": jnp.asarray(total)}, contexts[0])
    np.testing.assert_array_equal(answer["words"], numerics.round_shift(total, 2, random))
    expected = numerics.dequantize(np.asarray(answer["words"]), exponents, 3, bits=8, shift=2)
    np.testing.assert_array_equal(compressor.decode_sum(answer, contexts[0]), expected)


@pytest.mark.parametrize("workers", [1, 2, 4, 16])
@pytest.mark.parametrize("spec", ["int8:stochastic", "int16:stochastic"])
def test_stochastic_rounding_has_no_bias_but_where_it_clamps(spec, workers):
    """Of values next to the largest power of two, those above the largest word lose at most a unit."""
    bits = get(spec).bits
    relative = np.float32([0.9999999, -0.999, 0.99, -0.97, 0.9, -0.7, 0.03, -0.0011])
    x = jnp.tile(relative, (workers, 1))
    keys = jax.random.split(jax.random.key(2026), DRAWS)
    states = jax.vmap(lambda key: get(spec).init(x[0], key))(keys)
    step = jax.vmap(lambda g, s: get(spec).update(g, s, "workers")[0], in_axes=(0, None), axis_name="workers")
    samples = np.asarray(jax.jit(jax.vmap(lambda s: step(x, s)[0]))(states), np.float64)
    bias, standard_error = samples.mean(axis=0) - relative, samples.std(axis=0) / np.sqrt(DRAWS)
    unit = 2.0 ** (1 - bits)
    clamped = np.abs(relative) > 1 - unit
    assert clamped.any() and not clamped[2:].any()
    assert (np.abs(bias[~clamped]) <= 4 * standard_error[~clamped] + 1e-7).all()
    assert (bias[clamped] * np.sign(relative[clamped]) <= 4 * standard_error[clamped]).all()
    assert (np.abs(bias[clamped]) <= unit + 4 * standard_error[clamped]).all()


@pytest.mark.parametrize("spec", ["int8+ef", "int8:stochastic+ef"])
def test_error_feedback_owes_the_way_up_and_not_the_shift(spec):
    """All that is neither in the means nor in the memories was lost by the shift: at most a result's unit each step."""
    compressor, count = get(spec), 40
    gradients = jnp.stack([normal(seed) for seed in (3, 4)])
    state, total = initial(compressor, gradients), np.zeros(gradients.shape[1:])
    for _ in range(count):
        mean, state = steps(compressor, gradients, state)
        total += np.asarray(mean[0], np.float64)
    memory = np.asarray(state["leaves"]["memory"], np.float64)
    lost = count * np.asarray(gradients).mean(axis=0) - total - memory.mean(axis=0)
    unit = 2.0 ** (np.frexp(np.abs(gradients).max())[1] - 7)
    assert np.abs(memory).max() <= unit * 1.01  # a word's, but for the rounding of float32
    assert np.abs(lost).max() <= count * unit / 2 + 1e-3  # of a sum of two, which the mean halves
    assert np.abs(lost).max() > unit  # so error feedback alone would owe it


@pytest.mark.parametrize("spec, width", [("int8", 1), ("int16", 2)])
def test_bytes_are_those_of_words_and_exponents(spec, width):
    """Up and down alike: the words, a byte for each block, and the flag that no value is NaN or infinite."""
    gradients = [normal(seed, (1000,)) for seed in range(8)]
    traffic, _ = compressors.measure(get(spec), gradients, jax.random.key(0))
    assert traffic.sent == traffic.received == 1000 * width + 4 + 1


def test_other_widths_are_refused():
    with pytest.raises(InvalidArgumentError, match=r"8 or 16 .* not 12"):
        type(get("int8"))(bits=12)


def test_seeds_beyond_64_bits_are_refused():
    with pytest.raises(InvalidArgumentError, match="seed must be from 0"):
        get(f"int8:stochastic:seed={2**64}")
