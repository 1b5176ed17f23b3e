"""Compressors behave as documented for zeros, very small and large numbers, NaN and infinity, and odd shapes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compressor_cases import SHAPE, SPECS, get, initial, normal, steps, traced_steps

PLAIN = ["none", "fp16", "bf16", "fp16ring", "bf16ring"]


@pytest.mark.parametrize("spec", SPECS)
def test_zeros_stay_zeros(spec):
    compressor, zeros = get(spec), jnp.zeros((2, *SHAPE))
    mean, state = steps(compressor, zeros, initial(compressor, zeros))
    if spec == "signsgd":
        assert set(np.unique(mean)) <= {-1, 0, 1}
    else:
        np.testing.assert_array_equal(mean, 0)
    for leaf in jax.tree.leaves(state["leaves"]):
        assert np.isfinite(leaf).all()


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("size", [1e-42, 1e-37, 1e36])
def test_tiny_and_huge_values_stay_finite(spec, size):
    compressor = get(spec)
    x = np.stack([np.float32(size) * normal(30), np.float32(size) * normal(39)])
    mean, state = steps(compressor, jnp.asarray(x), initial(compressor, x))
    if spec.startswith("fp16") and size > 1:
        assert np.isinf(mean).any()  # documented: 65520 and more become infinite
        return
    assert np.isfinite(mean).all()
    if spec not in ("signsgd", "randomk:0.1"):
        assert np.abs(mean).max() <= 4.5 * np.abs(x).max() + 2.0**-126  # QSGD and TernGrad may reach the norm
    for leaf in jax.tree.leaves(state["leaves"]):
        assert np.isfinite(leaf).all()


@pytest.mark.parametrize("spec", [s for s in SPECS if s not in PLAIN])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_non_finite_leaf_is_nan_everywhere_and_leaves_no_trace(spec, value):
    compressor, good = get(spec), jnp.stack([normal(31), normal(32)])
    _, state = steps(compressor, good, initial(compressor, good))
    mean, after = steps(compressor, good.at[1, 2, 3].set(value), state)
    assert np.isnan(mean).all()  # on both workers
    jax.tree.map(np.testing.assert_array_equal, after["leaves"], state["leaves"])


@pytest.mark.parametrize("spec", ["int32+ef", "int8+ef", "blockfp:8+ef", "qgz+ef", "topk:0.1", "thc:block=64"])
def test_a_gradient_and_what_is_owed_that_overflow_together_are_not_lost(spec):
    """A block with an infinity has no exponent, so its words would be zeros, and the memory would be gone."""
    compressor, large = get(spec), jnp.full((2, *SHAPE), 3e38)
    before = initial(compressor, large)
    before["leaves"]["memory"] = large.at[1].set(0)  # of one worker alone
    mean, after = steps(compressor, large, before)
    assert np.isnan(mean).all()  # on both workers
    jax.tree.map(np.testing.assert_array_equal, after["leaves"], before["leaves"])


def test_non_finite_leaf_leaves_the_others_alone():
    compressor = get("topk:0.1")
    good = {"a": jnp.stack([normal(31), normal(32)]), "b": jnp.stack([normal(33), normal(34)])}
    bad = {**good, "a": good["a"].at[1, 2, 3].set(np.nan)}
    clean, clean_after = steps(compressor, good, initial(compressor, good))
    mean, after = steps(compressor, bad, initial(compressor, good))
    np.testing.assert_array_equal(mean["b"], clean["b"])
    jax.tree.map(np.testing.assert_array_equal, after["leaves"]["memory"]["b"], clean_after["leaves"]["memory"]["b"])


@pytest.mark.parametrize("spec", PLAIN)
def test_plain_formats_give_what_ieee_gives(spec):
    compressor = get(spec)
    x = jnp.stack([normal(35), normal(36)]).at[0, 0, :3].set(jnp.array([np.inf, np.inf, np.nan]))
    x = x.at[1, 0, 1].set(-np.inf)
    mean, _ = steps(compressor, x, initial(compressor, x))
    assert mean[0, 0, 0] == np.inf
    assert np.isnan(mean[0, 0, 1:3]).all()
    assert np.isfinite(mean[0, 1:]).all()


def test_fp16_with_error_feedback_recovers_from_overflow():
    compressor, x = get("fp16+ef"), jnp.full((1, 4), 1e6)
    _, state = steps(compressor, x, initial(compressor, x))
    mean, _ = steps(compressor, jnp.ones((1, 4)), state)
    np.testing.assert_array_equal(mean, 1)


def odd_leaves() -> dict[str, jax.Array]:
    """Returns the gradients of one worker: a scalar, an empty array, one element, three axes, bfloat16."""
    gradients = {
        "scalar": jnp.float32(0.5),
        "empty": jnp.zeros((0, 3)),
        "one": jnp.ones((1,)),
        "three axes": jnp.asarray(normal(37, (3, 2, 5))),
        "bfloat16": jnp.asarray(normal(38, (6,)), jnp.bfloat16),
    }
    return jax.tree.map(lambda leaf: leaf[None], gradients)


@pytest.mark.parametrize("spec", SPECS)
def test_shapes_and_dtypes_of_odd_leaves_come_back(spec):
    compressor, workers = get(spec), odd_leaves()
    mean, _ = jax.eval_shape(lambda g: traced_steps(compressor, g, initial(compressor, g)), workers)
    jax.tree.map(lambda m, g: np.testing.assert_equal((m.shape, m.dtype), (g.shape, g.dtype)), mean, workers)


@pytest.mark.parametrize("spec", ["blockfp:5:block=7", "qsgd:64:bucket=20", "topk:0.1", "powersgd:2", "thc:block=64"])
def test_odd_leaves_have_finite_means(spec):
    """Tests the compressors that cut an array into blocks, or into what is sent and what is not."""
    compressor, workers = get(spec), odd_leaves()
    mean, _ = steps(compressor, workers, initial(compressor, workers))
    assert all(np.isfinite(np.asarray(leaf, np.float32)).all() for leaf in jax.tree.leaves(mean))
    assert mean["one"].item() == pytest.approx(1, abs=0.2)
