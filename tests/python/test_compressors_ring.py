"""The ring of 16-bit floating point gives the bits of a ring, worker by worker and hop by hop."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from compressor_cases import get, initial, normal, traced_steps
from eight_devices import DEVICES, sharded

from jaxina import compressors

FORMATS = {"bf16ring": ml_dtypes.bfloat16, "fp16ring": np.float16}
steps = jax.jit(traced_steps, static_argnums=0)  # with XLA's optimizations, which could leave out roundings


def ring(arrays: np.ndarray, dtype: type) -> np.ndarray:
    """The reference: parts pass from worker to worker. Arrays are [n, size]; the result is the sum, `dtype`[size]."""
    workers, size = arrays.shape
    length = -(-size // workers)
    own = np.pad(arrays, ((0, 0), (0, workers * length - size))).astype(dtype).reshape(workers, workers, length)
    held = {w: own[w, (w - 1) % workers] for w in range(workers)}  # worker w begins with the part of worker w - 1
    for hop in range(workers - 1):
        passed = {(w + 1) % workers: partial for w, partial in held.items()}
        held = {
            w: (partial.astype(np.float32) + own[w, (w - hop - 2) % workers].astype(np.float32)).astype(dtype)
            for w, partial in passed.items()
        }
    return np.concatenate([held[w] for w in range(workers)])[:size]


def sums(means: np.ndarray, workers: int, dtype: type) -> np.ndarray:
    """The sums of 16 bits. XLA may divide by 3 in another way than NumPy, but that is far below their last bit."""
    return (np.asarray(means) * np.float32(workers)).astype(dtype)


@pytest.mark.parametrize("spec", FORMATS)
@pytest.mark.parametrize("workers, size", [(2, 40), (3, 50), (8, 100)])
def test_bits_are_those_of_the_ring(spec, workers, size):
    arrays = np.stack([normal(seed, (size,)) for seed in range(workers)])
    means, _ = steps(get(spec), jnp.asarray(arrays), initial(get(spec), arrays))
    expected = np.tile(ring(arrays, FORMATS[spec]), (workers, 1))
    np.testing.assert_array_equal(sums(means, workers, FORMATS[spec]), expected)
    if workers == 8:
        once = arrays.astype(FORMATS[spec]).astype(np.float32).mean(axis=0)
        assert np.abs(once - arrays.mean(axis=0)).max() < np.abs(means[0] - arrays.mean(axis=0)).max()


def test_small_gradients_vanish_beside_a_large_partial_sum():
    arrays = np.float32([[256], [1], [1], [1]])  # bfloat16 has no 257
    assert ring(arrays, ml_dtypes.bfloat16).tolist() == [260]  # part 0 begins at worker 1: 3, then 259
    arrays = np.float32([[1], [256], [1], [1]])
    means, _ = steps(get("bf16ring"), jnp.asarray(arrays), initial(get("bf16ring"), arrays))
    assert means.tolist() == [[64]] * 4
    assert ring(arrays, ml_dtypes.bfloat16).tolist() == [256]


@pytest.mark.parametrize("spec", FORMATS)
def test_bits_on_devices_are_those_of_the_ring(spec):
    arrays = np.stack([normal(seed, (21,)) for seed in range(DEVICES)])

    def own(x):
        x = x.reshape(-1)
        return get(spec).update(x, get(spec).init(x, jax.random.key(0)), "w")[0]

    means = jax.jit(sharded(own))(arrays)
    np.testing.assert_array_equal(sums(means, DEVICES, FORMATS[spec]), ring(arrays, FORMATS[spec]))


def test_bytes_are_two_passes_of_the_other_parts():
    """1000 elements are 8 parts of 125. GATHER counts a part that goes to all workers once."""
    traffic, _ = compressors.measure(get("bf16ring"), [normal(seed, (1000,)) for seed in range(8)], jax.random.key(0))
    assert (traffic.sent, traffic.received) == (7 * 250 + 250, 2 * 7 * 250)


def test_a_sum_beyond_fp16_is_infinite_and_one_beyond_a_single_format_is_not():
    arrays = jnp.full((2, 4), 40_000.0)
    assert np.isinf(steps(get("fp16ring"), arrays, initial(get("fp16ring"), arrays))[0]).all()
    assert np.isfinite(steps(get("fp16"), arrays, initial(get("fp16"), arrays))[0]).all()


@pytest.mark.parametrize("spec", FORMATS)
def test_error_feedback_owes_all_roundings(spec):
    compressor, count = get(f"{spec}+ef"), 12
    gradients = jnp.stack([normal(seed) for seed in (3, 4, 5)])
    state, total = initial(compressor, gradients), np.zeros(gradients.shape[1:])
    exact = count * np.asarray(gradients, np.float64).mean(axis=0)
    for _ in range(count):
        mean, state = steps(compressor, gradients, state)
        total += np.asarray(mean[0], np.float64)
    owed = np.asarray(state["leaves"]["memory"], np.float64).mean(axis=0)
    np.testing.assert_allclose(total + owed, exact, atol=1e-5)
    assert np.abs(total - exact).max() > 1e-4
