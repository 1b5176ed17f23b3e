"""Every compressor keeps its promises: expectation, contraction, linearity and determinism."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compressor_cases import SHAPE, SPECS, decoded, get, initial, normal, steps, sums

from jaxina.compressors import SUM, Compressor, Context

DRAWS = 1500
KEYS = jax.random.split(jax.random.key(2021), DRAWS)

UNBIASED = [s for s in SPECS if get(s).promise.unbiased or "stochastic" in s]


def largest_z(spec: str) -> float:
    """Returns how many standard errors the mean over the keys is off x, for the worst element."""
    x = normal(1)
    samples = np.asarray(decoded(get(spec), x, KEYS), np.float64)
    error = np.abs(samples.mean(axis=0) - x)
    standard_error = samples.std(axis=0) / np.sqrt(DRAWS)
    # An element that is sent unchanged has no variance, but scaling still rounds it in float32.
    return float((error / (standard_error + 1e-6 * np.abs(x))).max())


@pytest.mark.parametrize("spec", UNBIASED)
def test_unbiased(spec):
    # With 72 elements, chance alone exceeds 4.9 standard errors once in 14,000 such tests. The keys are fixed.
    assert largest_z(spec) < 4.9


NEXT_TO_THE_LARGEST = np.float32([0.9999999, -0.9999, 0.999, -0.99, 0.97, -0.9, 0.7, 0.03])
"""Relative to the power of two above the block's largest magnitude."""


@pytest.mark.parametrize("workers", [1, 4, 16])
@pytest.mark.parametrize("spec", ["blockfp:8:stochastic", "blockfp:8:stochastic:paper", "blockfp:6:stochastic"])
def test_block_fixed_point_is_unbiased_next_to_the_largest_value(spec, workers):
    """With a power of two of workers, the power of two as the scale would leave such values no word."""
    compressor, x = get(spec), jnp.tile(NEXT_TO_THE_LARGEST, (workers, 1))
    states = jax.vmap(lambda key: compressor.init(x[0], key))(KEYS)
    step = jax.vmap(lambda g, s: compressor.update(g, s, "workers")[0], in_axes=(0, None), axis_name="workers")
    samples = np.asarray(jax.jit(jax.vmap(lambda s: step(x, s)[0]))(states), np.float64)
    standard_error = samples.std(axis=0) / np.sqrt(DRAWS)
    assert (np.abs(samples.mean(axis=0) - NEXT_TO_THE_LARGEST) <= 4 * standard_error + 1e-6).all()


@pytest.mark.parametrize("workers", [1, 4, 16])
def test_narrow_words_cut_off_less_than_their_last_unit(workers):
    """However many workers there are. Values up to 127 / 128 of the power of two above their block have no bias."""
    compressor, x = get("int8:stochastic"), jnp.tile(NEXT_TO_THE_LARGEST, (workers, 1))
    states = jax.vmap(lambda key: compressor.init(x[0], key))(KEYS)
    step = jax.vmap(lambda g, s: compressor.update(g, s, "workers")[0], in_axes=(0, None), axis_name="workers")
    samples = np.asarray(jax.jit(jax.vmap(lambda s: step(x, s)[0]))(states), np.float64)
    cut_off = NEXT_TO_THE_LARGEST.clip(-127 / 128, 127 / 128)
    assert 0.99 < np.abs(cut_off / NEXT_TO_THE_LARGEST).min() < 1
    standard_error = samples.std(axis=0) / np.sqrt(DRAWS)
    assert (np.abs(samples.mean(axis=0) - cut_off) <= 4 * standard_error + 1e-6).all()


@pytest.mark.parametrize("spec", ["int8", "terngrad:1.0", "efsignsgd", "topk:0.1", "randomk:0.1+ef"])
def test_bias_would_be_seen(spec):
    assert largest_z(spec) > 10


def test_every_compressor_is_registered_with_a_case():
    from jaxina.compressors import names

    tested = {type(get(spec)) for spec in SPECS}
    assert tested == {type(get(name)) for name in names() if type(get(name)).__module__.startswith("jaxina.")}


def contraction(spec: str) -> float:
    """E |x - Q(x)|^2 / |x|^2."""
    x = normal(2)
    errors = np.asarray(decoded(get(spec), x, KEYS), np.float64) - x
    return float((errors**2).sum(axis=(1, 2)).mean() / (x.astype(np.float64) ** 2).sum())


D = SHAPE[0] * SHAPE[1]
X = normal(2).astype(np.float64)


@pytest.mark.parametrize(
    "spec, bound",
    [
        ("topk:0.1", 1 - 8 / D),  # the k largest of d elements hold at least k / d of the square norm
        ("efsignsgd", 1 - np.abs(X).sum() ** 2 / (D * (X**2).sum())),  # Karimireddy et al., lemma 8
        ("threshold:0.5", 0.25 * D / (X**2).sum()),
        ("randomk:0.1+ef", (1 - 8 / D) * 1.01),  # the bound is for the expectation; 1 % for the mean of 1,500 draws
        ("onebit", 1.0),
        ("powersgd:2", 1.0),
        ("thc:block=64", 0.1),
        ("int8+ef", D * 2.0**-9 / (X**2).sum() * 16),
        ("fp16+ef", 2.0**-22),
        ("bf16+ef", 2.0**-16),
        ("qsgd:64:bucket=20+ef", 20 / 64**2),  # Alistarh et al., lemma 3.1
        ("natural+ef", 1 / 8),  # Horvath et al., theorem 1
    ],
)
def test_error_feedback_contracts(spec, bound):
    assert get(spec).error_feedback
    assert contraction(spec) <= bound + 1e-7


FEEDBACK = [
    "topk:0.1",
    "threshold:1.5",
    "efsignsgd",
    "onebit",
    "powersgd:2",
    "thc:block=64",
    "qsgd:64:bucket=20+ef",
    "randomk:0.1+ef",
    "blockfp:8+ef",
    "bf16+ef",
]


@pytest.mark.parametrize("spec", FEEDBACK)
def test_error_feedback_forgets_nothing(spec):
    """The sum of the means plus the mean of the memories is the sum of the gradients. The memories stay bounded."""
    compressor = get(spec)
    gradients = jnp.stack([normal(seed) for seed in (3, 4)])
    state = initial(compressor, gradients)
    total = np.zeros(SHAPE)
    sizes = []
    for _ in range(40):
        mean, state = steps(compressor, gradients, state)
        total += np.asarray(mean[0], np.float64)
        sizes.append(float(jnp.linalg.norm(state["leaves"]["memory"])))
    owed = np.asarray(state["leaves"]["memory"], np.float64).mean(axis=0)
    np.testing.assert_allclose(total + owed, 40 * np.asarray(gradients).mean(axis=0), atol=2e-3)
    assert max(sizes[30:]) < 1.5 * max(sizes[:30])


def test_top_k_memory_is_within_the_bound_of_its_contraction():
    compressor, x = get("topk:0.1"), normal(6)
    state = initial(compressor, x[None])
    rest = np.sqrt(1 - 8 / D)
    for _ in range(60):
        _, state = steps(compressor, x[None], state)
        assert np.linalg.norm(state["leaves"]["memory"]) <= rest / (1 - rest) * np.linalg.norm(x)


def test_dgc_without_momentum_forgets_nothing():
    compressor, x = get("dgc:0.1:momentum=0"), normal(7)
    state = initial(compressor, x[None])
    total = np.zeros(SHAPE)
    for _ in range(20):
        mean, state = steps(compressor, x[None], state)
        total += np.asarray(mean[0])
    np.testing.assert_allclose(total + state["leaves"]["unsent"][0], 20 * x, rtol=1e-4)
    assert "momentum" not in state["leaves"]


@pytest.mark.parametrize("spec", [s for s in SPECS if get(s).kind == SUM and "powersgd" not in s])
def test_payloads_sum(spec):
    """decode(sum of payloads) = sum of decoded payloads. This is why an aggregator may add payloads."""
    together, one_by_one = sums(get(spec), jnp.stack([normal(seed) for seed in (8, 9, 10)]), KEYS[0])
    np.testing.assert_allclose(together, one_by_one, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spec", SPECS)
def test_the_key_determines_the_result(spec):
    compressor = get(spec)
    gradients = jnp.stack([normal(12), normal(12)])
    first, after = steps(compressor, gradients, initial(compressor, gradients, seed=5))
    again, _ = steps(compressor, gradients, initial(compressor, gradients, seed=5))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first[0], first[1])  # every worker gets the same
    assert int(after["step"][0]) == 1


@pytest.mark.parametrize("spec", ["qsgd:64:bucket=20", "terngrad", "natural", "int8:stochastic", "randomk:0.1"])
def test_other_keys_and_other_steps_draw_other_numbers(spec):
    compressor, x = get(spec), np.stack([normal(13), normal(13)])
    state = initial(compressor, x, seed=1)
    first, state = steps(compressor, x, state)
    later, _ = steps(compressor, x, state)
    other, _ = steps(compressor, x, initial(compressor, x, seed=2))
    assert (np.asarray(first) != later).any()
    assert (np.asarray(first) != other).any()


def test_workers_draw_their_own_numbers():
    """All workers have the same gradient. If they drew the same numbers, all levels of the mean would be whole."""
    compressor = get("qsgd:4:bucket=72")
    gradients = jnp.stack([normal(14)] * 4)
    mean, _ = steps(compressor, gradients, initial(compressor, gradients))
    levels = 4 * np.asarray(mean[0]) / np.linalg.norm(normal(14))
    assert (np.abs(levels - np.rint(levels)) > 0.1).any()


def test_random_k_chooses_the_same_places_everywhere():
    compressor = get("randomk:0.1")
    gradients = jnp.stack([normal(15), normal(16)])
    mean, _ = steps(compressor, gradients, initial(compressor, gradients))
    chosen = np.asarray(mean[0]) != 0
    assert chosen.sum() == 8
    np.testing.assert_allclose(mean[0][chosen], 9 * np.asarray(gradients).mean(axis=0)[chosen], rtol=1e-6)


@pytest.mark.parametrize("size, k", [(10, 3), (7, 7), (9, 3), (11, 10), (50, 1)])
def test_random_k_sends_k_elements_and_each_equally_often(size, k):
    compressor, draws = get(f"randomk:{k / size}"), 20_000
    keys = jax.random.split(jax.random.key(17), draws)
    ones = jnp.ones(size)
    chosen = np.asarray(jax.jit(jax.vmap(lambda key: one_draw(compressor, ones, key)))(keys)) != 0
    assert (chosen.sum(axis=1) == k).all()
    share = k / size
    assert np.abs(chosen.mean(axis=0) - share).max() <= 4 * np.sqrt(share * (1 - share) / draws)


def one_draw(compressor: Compressor, x: jax.Array, key: jax.Array) -> jax.Array:
    context = Context(x.shape, 1, key)
    return compressor.decode(compressor.encode(x, {}, context)[0], context)


@pytest.mark.parametrize("size", [10**6, 2**31 - 1])
def test_random_k_draws_places_without_sorting_and_within_int32(size):
    compressor, context = get(f"randomk:{1000 / size}"), Context((size,), 1, KEYS[3])
    draw = jax.jit(lambda: compressor._places(context))
    places = np.asarray(draw())
    assert len(np.unique(places)) == len(places) == 1000
    assert 0 <= places.min() < size / 50 and size * 0.98 < places.max() < size
    assert "sort" not in draw.lower().as_text()
