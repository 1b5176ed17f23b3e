"""Compressors in published examples, at published bounds, and in cases that are small enough to do by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compressor_cases import context_for, decoded, get, initial, normal, steps

from jaxina import compressors, numerics
from jaxina.compressors import Context
from jaxina.compressors.thc import best_table, clip_point, hadamard, rotate

KEY = jax.random.key(0)


def one_step(spec: str, gradients) -> np.ndarray:
    """Returns the mean that worker 0 gets. `gradients` has one row for each worker."""
    gradients = jnp.asarray(gradients, jnp.float32)
    mean, _ = steps(get(spec), gradients, initial(get(spec), gradients))
    return np.asarray(mean[0])


@pytest.mark.parametrize("f, sum_of_words, result", [(100, 579, 5.79), (10, 58, 5.8)])
def test_switchml_appendix_e(f, sum_of_words, result):
    """1.56 + 4.23 with two workers. The block's exponent is 3, so `factor` is f 2^3."""

    class Example(type(get("blockfp"))):
        def _factor(self, workers):
            return f * 8.0

    compressor = Example(paper=True)
    arrays = [jnp.float32([1.56]), jnp.float32([4.23])]
    agreed = compressor.propose(arrays[1])
    assert int(agreed["exponents"][0]) == 126 + 3
    context = Context((1,), 2, KEY, agreed=agreed)
    words = sum(compressor.encode(x, {}, context)[0]["words"] for x in arrays)
    assert words.tolist() == [sum_of_words]
    assert float(compressor.decode({"words": words}, context)[0]) == pytest.approx(result, rel=1e-7)


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_int32_is_the_specification_bit_for_bit(workers):
    class Sum(type(get("int32"))):
        def mean(self, total, workers):
            return total

    gradients = [normal(seed, (30, 33)) * np.float32(10.0) ** (seed - 42) for seed in range(40, 40 + workers)]
    total, _ = steps(Sum(), jnp.stack(gradients), initial(Sum(), jnp.stack(gradients)))
    expected = numerics.all_reduce_reference(gradients)
    np.testing.assert_array_equal(np.asarray(total[0]).view(np.int32), expected.view(np.int32))


@pytest.mark.parametrize("bits", [4, 8, 12, 16, 24])
@pytest.mark.parametrize("workers", [3, 4])
def test_narrow_words_are_within_theorem_1(bits, workers):
    """Theorem 1: |mean - exact| <= 1 / f. Rounding to nearest gives half of that, for values next to 2^m as well."""
    gradients = np.stack([normal(seed, (64,)) for seed in range(43, 43 + workers)])
    exponent = np.frexp(np.abs(gradients).max())[1]
    gradients[:, :2] = np.ldexp([0.9999, -0.99], exponent)
    f = {3: 2.0 ** (bits - 3), 4: 2.0 ** (bits - 3) - 1}[workers] / 2.0**exponent
    error = np.abs(one_step(f"blockfp:{bits}", gradients) - gradients.astype(np.float64).mean(axis=0))
    assert error.max() <= 0.5 / f + 1e-6
    assert error.max() > 0.01 / f  # the error is not much smaller than the bound, so the bound is tested


@pytest.mark.parametrize("levels, bucket", [(1, 72), (4, 72), (64, 72), (4, 9)])
def test_qsgd_variance_bound(levels, bucket):
    """Lemma 3.1: E|Q(x) - x|^2 <= min(d / s^2, sqrt(d) / s) |x|^2 for each bucket."""
    x = normal(46)
    samples = np.asarray(decoded(get(f"qsgd:{levels}:{bucket}"), x, jax.random.split(KEY, 300)), np.float64)
    variance = ((samples - x) ** 2).sum(axis=(1, 2)).mean()
    assert variance <= min(bucket / levels**2, bucket**0.5 / levels) * (x.astype(np.float64) ** 2).sum()


def test_qsgd_by_hand():
    """|x| = 5 and s = 5. The shares 3/5 and 4/5 are whole levels, so nothing is random."""
    compressor, x = get("qsgd:5"), jnp.float32([3, 0, -4])
    payload, _ = compressor.encode(x, {}, context_for(compressor, x, KEY))
    assert payload["norm"].tolist() == [5.0]
    assert payload["levels"].tolist() == [3, 0, -4]


def test_terngrad_by_hand():
    """The scale is the largest magnitude of all workers. An element of that magnitude is not random."""
    np.testing.assert_array_equal(one_step("terngrad", [[2, 0, -2], [0, 2, -2]]), [1, 1, -2])


def test_natural_compression_keeps_powers_of_two_and_rounds_to_neighbours():
    x = jnp.float32([1, -0.5, 2.0**-126, 3, -3])
    samples = np.asarray(decoded(get("natural"), x, jax.random.split(KEY, 64)))
    np.testing.assert_array_equal(samples[:, :3], np.tile(x[:3], (64, 1)))
    assert set(np.unique(samples[:, 3])) == {2, 4}
    assert set(np.unique(samples[:, 4])) == {-2, -4}


def test_majority_vote():
    np.testing.assert_array_equal(one_step("signsgd", [[1, -9, 1], [2, 1, 3], [-5, -1, 7]]), [1, -1, 1])
    np.testing.assert_array_equal(one_step("signsgd", [[1, 1], [-1, 1]]), [0, 1])


def test_ef_signsgd_by_hand():
    np.testing.assert_array_equal(one_step("efsignsgd", [[1, -3]]), [2, -2])
    np.testing.assert_array_equal(one_step("efsignsgd", [[1, -3], [4, 4]]), [3, 1])


def test_one_bit_by_hand():
    """Columns (1, 3, -1) and (-2, -4, 6) have means 2 and -1, 6 and -3."""
    np.testing.assert_array_equal(one_step("onebit", [[[1, -2], [3, -4], [-1, 6]]]), [[2, -3], [2, -3], [-1, 6]])


def test_top_k_by_hand():
    np.testing.assert_array_equal(one_step("topk:0.5", [[1, -4, 3, 0.5], [0, 8, 0, 6]]), [0, 2, 1.5, 3])


def test_top_k_of_everything_sends_the_array_as_it_is():
    x = jnp.array([[1.0, -4.0], [3.0, 0.5]])
    compressor = get("topk:1.0")
    payload, _ = compressor.encode(x, {}, context_for(compressor, x, KEY))
    np.testing.assert_array_equal(payload["values"], x.reshape(-1))
    np.testing.assert_array_equal(payload["indices"], np.arange(4))
    np.testing.assert_array_equal(one_step("topk:1.0", [[1, -4, 3, 0.5], [0, 8, 0, 6]]), [0.5, 2, 1.5, 3.25])


def test_threshold_by_hand():
    np.testing.assert_array_equal(one_step("threshold:2", [[1, -2, 3], [0, 0, 4]]), [0, -1, 3.5])


def test_error_feedback_sends_what_was_left():
    compressor, state = get("topk:0.5"), initial(get("topk:0.5"), jnp.zeros((1, 2)))
    first, state = steps(compressor, jnp.float32([[3, 2]]), state)
    second, state = steps(compressor, jnp.float32([[1, 0]]), state)
    assert first.tolist() == [[3, 0]]
    assert second.tolist() == [[0, 2]]
    assert state["leaves"]["memory"].tolist() == [[1, 0]]


def test_dgc_by_hand():
    """Momentum 0.5, k = 1 of 2. First u = (3, 2): the 3 is sent and cleared. Then u = (1, 1), v = (1, 3): 3 is sent."""
    compressor = get("dgc:0.5:momentum=0.5")
    state = initial(compressor, jnp.zeros((1, 2)))
    first, state = steps(compressor, jnp.float32([[3, 2]]), state)
    second, state = steps(compressor, jnp.float32([[1, 0]]), state)
    assert first.tolist() == [[3, 0]]
    assert second.tolist() == [[0, 3]]
    assert state["leaves"]["momentum"].tolist() == [[1, 0]]
    assert state["leaves"]["unsent"].tolist() == [[1, 0]]


def test_dgc_warm_up_sends_a_quarter_less_at_each_stage():
    compressor = get("dgc:0.004:warmup=6:momentum=0")
    gradients = jnp.asarray(normal(47, (1, 1000)))
    state, counts, sent = initial(compressor, gradients), [], 0
    for _ in range(8):
        mean, state = steps(compressor, gradients, state)
        counts.append(int((mean != 0).sum()))
        sent += mean
    assert counts == [250, 250, 63, 63, 16, 16, 4, 4]  # 25 %, 6.25 %, 1.5625 %, then the ratio
    np.testing.assert_allclose(sent + state["leaves"]["unsent"], 8 * gradients, rtol=1e-5)


def test_encode_knows_the_step():
    class Clock(type(get("none"))):
        def encode(self, x, state, context):
            return {"values": x + context.step}, state

    state, means = initial(Clock(), jnp.zeros((2, 1))), []
    for _ in range(3):
        mean, state = steps(Clock(), jnp.zeros((2, 1)), state)
        means.append(mean[0].item())
    assert means == [0, 1, 2]


def low_rank(seed: int, rank: int) -> np.ndarray:
    return normal(seed, (20, rank)) @ normal(seed + 1, (rank, 15))


def test_powersgd_is_exact_up_to_its_rank():
    """The mean of two workers' gradients of rank 2 has rank 4."""
    gradients = np.stack([low_rank(50, 2), low_rank(52, 2)])
    scale = np.abs(gradients).max()
    np.testing.assert_allclose(one_step("powersgd:4", gradients), gradients.mean(axis=0), atol=1e-5 * scale)
    assert np.abs(one_step("powersgd:2", gradients) - gradients.mean(axis=0)).max() > 0.01 * scale


def test_powersgd_approaches_the_best_approximation():
    """PowerSGD's warm start is subspace iteration. Without error feedback it converges to the truncated SVD."""
    matrix = (low_rank(54, 2) + 0.1 * normal(56, (20, 15)))[None]
    compressor = get("powersgd:2-ef")
    state = initial(compressor, matrix)
    for _ in range(30):
        mean, state = steps(compressor, jnp.asarray(matrix), state)
    u, s, vt = np.linalg.svd(matrix[0])
    best = (u[:, :2] * s[:2]) @ vt[:2]
    np.testing.assert_allclose(mean[0], best, atol=1e-3)


@pytest.mark.parametrize("spec", ["powersgd:2", "powersgd:2-ef"])
def test_powersgd_recovers_from_a_gradient_of_zeros(spec):
    """The first rows stay zero, as those of an embedding's unused words do: P's columns must not point there only."""
    compressor, gradient = get(spec), np.zeros((1, 20, 15), np.float32)
    _, state = steps(compressor, jnp.asarray(gradient), initial(compressor, gradient))
    gradient[0, 5:] = low_rank(80, 2)[5:]
    for _ in range(3):
        mean, state = steps(compressor, jnp.asarray(gradient), state)
    np.testing.assert_allclose(mean[0], gradient[0], atol=1e-4 * np.abs(gradient).max())


def test_powersgd_finds_other_rows_and_columns_after_those_that_it_had():
    """The gradient has rank 1, so one of Q's columns is left over; then it moves to where the old Q has only zeros."""
    compressor, first, second = (
        get("powersgd:2-ef"),
        np.zeros((1, 20, 15), np.float32),
        np.zeros((1, 20, 15), np.float32),
    )
    first[0, 4:10, :7] = low_rank(82, 1)[4:10, :7]
    second[0, 10:, 7:] = low_rank(84, 2)[10:, 7:]
    state = initial(compressor, first)
    for gradient in (first, first, second, second):
        mean, state = steps(compressor, jnp.asarray(gradient), state)
    np.testing.assert_allclose(mean[0], second[0], atol=1e-4 * np.abs(second).max())


@pytest.mark.parametrize("size", [1e-30, 1e-20, 1e20, 1e30])
def test_powersgd_works_at_every_size(size):
    compressor, gradient = get("powersgd:2-ef"), np.float32(size) * low_rank(86, 2)[None]
    state = initial(compressor, gradient)
    for _ in range(4):
        mean, state = steps(compressor, jnp.asarray(gradient), state)
        np.testing.assert_allclose(mean / size, gradient / size, atol=1e-4 * np.abs(gradient / size).max())


def test_powersgd_sends_small_leaves_as_they_are():
    gradients = np.stack([normal(57, (4, 4)), normal(58, (4, 4))])
    np.testing.assert_allclose(one_step("powersgd:2", gradients), gradients.mean(axis=0), rtol=1e-6)


@pytest.mark.parametrize("size", [2, 8, 64])
def test_rotation_is_orthonormal_and_its_own_inverse(size):
    matrix = hadamard(size)
    np.testing.assert_array_equal(matrix @ matrix.T, size * np.eye(size))
    rows = normal(59, (3, size))
    np.testing.assert_allclose(rotate(rows), rows @ matrix / np.sqrt(size), atol=1e-5)
    np.testing.assert_allclose(rotate(rotate(rows)), rows, atol=1e-5)


def rounding_variance(table: tuple[int, ...], grid: int) -> float:
    """Returns the variance of rounding a clipped standard normal at random to the table, as a sum over a fine mesh."""
    x = np.linspace(-clip_point(), clip_point(), 20001)
    points = np.asarray(table) * clip_point() / (grid / 2)
    below = np.clip(np.searchsorted(points, x, side="right") - 1, 0, len(points) - 2)
    density = np.exp(-(x**2) / 2)
    return float(((x - points[below]) * (points[below + 1] - x) * density).sum() / density.sum())


def test_thc_table_is_the_best_of_all_small_ones():
    import itertools

    tables = [(-4, *inner, 4) for inner in itertools.combinations(range(-3, 4), 2)]
    best = min(tables, key=lambda table: rounding_variance(table, 8))
    assert rounding_variance(best_table(2, 8), 8) == pytest.approx(rounding_variance(best, 8), rel=1e-9)


def test_thc_table_beats_even_spacing():
    table = best_table(4, 30)
    assert len(set(table)) == 16
    assert (table[0], table[-1]) == (-15, 15)
    assert rounding_variance(table, 30) < rounding_variance(tuple(range(-15, 16, 2)), 30)


def test_optax_chain():
    import optax

    optimizer = optax.chain(compressors.all_reduce_mean("topk:0.5", None), optax.sgd(0.5))
    params = jnp.float32([1, 1])
    updates, _ = jax.jit(optimizer.update)(jnp.float32([4, 2]), optimizer.init(params))
    np.testing.assert_array_equal(updates, [-2, 0])
